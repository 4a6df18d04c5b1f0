// Makes a node with headers of another version than the library. Prints the refusal, or `served`.
#include <cstdio>

#include <stripline.hpp>

int main() {
    stripline::node_options options;
    options.isolated = true;
    const auto node = stripline::node::make(options, std::nothrow);
    std::puts(node ? "served" : node.error().message());
}

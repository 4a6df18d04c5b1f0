// Runs the same file, compiled in four ways.
#include <cstdio>

bool cpp17();
bool cpp20();
bool cpp17_without();
bool cpp20_without();

int main() {
    if (cpp17() && cpp20() && cpp17_without() && cpp20_without()) {
        std::puts("variants: done");
    }
}

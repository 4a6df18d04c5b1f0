// The detector of the radar in C++, without `marked` and `cut` of radar.py.
// docs/radar.md explains it.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <stripline.hpp>

// A cell of the map that is above the neighbours.
struct detection {
    double range_m;
    double velocity_mps;
    double level_db;
};
STRIPLINE_MESSAGE(detection, "detection", range_m, velocity_mps, level_db)

class detector {
public:
    static stripline::component_spec describe() {
        return stripline::component_spec("detector", "CFAR: finds cells that exceed the mean of the cells around them.")
            .input<float>("in", "maps", "frames")
            .output<detection>("out", "detections")
            .property(stripline::float_property("threshold", 9, "level above the neighbours")
                          .unit("dB").range(1, 60).changeable());
    }

    explicit detector(const stripline::properties &properties) : threshold_(properties.get<double>("threshold")) {}

    void change(const stripline::properties &properties) { threshold_ = properties.get<double>("threshold"); }

    void run(stripline::ports &ports) {
        auto in = ports.windowed_input<float>("in", stripline::window_unit::frames);
        auto out = ports.message_output("out");
        while (auto window = ports.receive(in, 1)) {
            const auto stream = window->stream();
            const auto rows = static_cast<int>(stream.frame_rows.value());
            const auto cells = static_cast<int>(stream.row_length.value());
            const auto info = window->info();
            if (!info.is_whole) {
                continue;  // The rest of a frame: samples are missing before.
            }
            stripline::send_options options;
            options.time = info.time;
            const auto level = [&](int row, int cell) {
                return static_cast<double>((*window)[static_cast<std::size_t>(
                    (row + rows) % rows * cells + (cell + cells) % cells)]);
            };
            for (int row = 0; row < rows; row++) {
                for (int cell = 0; cell < cells; cell++) {
                    if (!is_peak(level, row, cell)) {
                        continue;
                    }
                    const double above = level(row, cell) - mean_around(level, row, cell);
                    if (above > threshold_) {
                        const auto value = [&](std::size_t axis, int place) {
                            return stream.axes.at(axis).at(static_cast<std::uint64_t>(place));
                        };
                        const detection found{value(0, cell), value(1, row), above};
                        stripline::send_message(out, found, options);
                    }
                }
            }
        }
    }

private:
    /// Returns the mean power at the same range, without the velocities next to the cell, in dB.
    template <class Level>
    static double mean_around(const Level &level, int row, int cell) {
        double sum = 0;
        for (int shift = 4; shift <= 12; shift++) {
            sum += std::pow(10, level(row - shift, cell) / 10) + std::pow(10, level(row + shift, cell) / 10);
        }
        return 10 * std::log10(sum / 18);
    }

    template <class Level>
    static bool is_peak(const Level &level, int row, int cell) {
        for (int i = -1; i <= 1; i++) {
            for (int j = -1; j <= 1; j++) {
                if (level(row + i, cell + j) > level(row, cell)) {
                    return false;
                }
            }
        }
        return true;
    }

    double threshold_;
};

int main(int argc, char **argv) { return stripline::component_main<detector>(argc, argv); }

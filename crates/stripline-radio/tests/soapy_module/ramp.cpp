// A device of SoapySDR for tests: each sample is a function of its index, channel and frequency.
// Nothing depends on a clock: the device's time advances with the samples that are read.
//
// Arguments of the device, as in `driver=ramp,overflow=1000:50`. N and M are sample indexes and
// numbers of samples of a channel.
//
//     serial=TEXT        name of the device, with its state in this process
//     channels=N         receive and transmit channels (1)
//     start=NS           hardware time of sample 0 (1000000000)
//     play=PATH          samples of a file of cu8, from its start to its end, in place of ramps
//     copies=1           samples of CS16 are copied from a buffer, as from a driver's own, all alike
//     stamps=0           no hardware time
//     sparse=1           a stamp for every other read alone, as for the parts of a datagram
//     reads=N            most samples of a read (1000)
//     ahead=N            samples that the driver has taken, but not delivered (0)
//     overflow=N:M+N:M   M samples are missing before sample N, and the driver reports it
//     skip=N:M           the same without a report
//     back=N:M           the stamps of sample N and later are M samples earlier
//     tune=N             samples from a change of the frequency to the first one that has it (0)
//     timed=1            changes of the frequency at a hardware time ("CMD")
//     ends=N             behind sample N, each read ends with a timeout
//     hang=N             behind sample N, a read never returns
//     stuck=1            a stream is never closed
//     vanish=N           behind sample N, the device is gone, once
//     absent=N           the next N attempts to open it after that fail
//     broken=1           each read fails
//     claims=1           all formats but CS16 are listed, and refused by the stream
//     long=1             a read returns more samples than asked for
//     record=PATH        file of the transmitted samples: a line for each write
//     late=1             transmitted bursts before the hardware time are late
//     underflow=N        behind N transmitted samples, an underflow is reported

#include <SoapySDR/Device.hpp>
#include <SoapySDR/Formats.hpp>
#include <SoapySDR/Registry.hpp>
#include <SoapySDR/Time.hpp>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

// State that outlives a device: whether it has vanished, and how long it stays away.
struct Life {
    bool vanished = false;
    long absent = 0;
};
std::mutex lives_lock;
std::map<std::string, Life> lives;

struct Place {
    long long index, count;
};

long long number(const SoapySDR::Kwargs &args, const std::string &key, long long otherwise)
{
    const auto found = args.find(key);
    return found == args.end() ? otherwise : std::stoll(found->second);
}

std::vector<Place> places(const SoapySDR::Kwargs &args, const std::string &key)
{
    std::vector<Place> all;
    const auto found = args.find(key);
    if (found == args.end()) return all;
    std::stringstream list(found->second);
    for (std::string one; std::getline(list, one, '+');) {
        const auto colon = one.find(':');
        all.push_back({std::stoll(one.substr(0, colon)), std::stoll(one.substr(colon + 1))});
    }
    return all;
}

struct Stream {
    int direction;
    std::string format;
    std::vector<size_t> channels;
};

class Ramp : public SoapySDR::Device {
public:
    explicit Ramp(const SoapySDR::Kwargs &args) : args_(args)
    {
        const auto serial = args.find("serial");
        serial_ = serial == args.end() ? "none" : serial->second;
        channels_ = number(args, "channels", 1);
        start_ = number(args, "start", 1000000000);
        stamps_ = number(args, "stamps", 1) != 0;
        sparse_ = number(args, "sparse", 0) != 0;
        reads_ = number(args, "reads", 1000);
        ahead_ = number(args, "ahead", 0);
        overflows_ = places(args, "overflow");
        skips_ = places(args, "skip");
        backs_ = places(args, "back");
        tune_ = number(args, "tune", 0);
        timed_ = number(args, "timed", 0) != 0;
        ends_ = number(args, "ends", -1);
        hang_ = number(args, "hang", -1);
        stuck_ = number(args, "stuck", 0) != 0;
        broken_ = number(args, "broken", 0) != 0;
        long_ = number(args, "long", 0) != 0;
        late_ = number(args, "late", 0) != 0;
        underflow_ = number(args, "underflow", -1);
        const std::lock_guard<std::mutex> lock(lives_lock);
        Life &life = lives[serial_];
        if (life.absent > 0) {
            life.absent--;
            throw std::runtime_error("the ramp is not plugged in");
        }
        vanish_ = life.vanished ? -1 : number(args, "vanish", -1);
        if (number(args, "copies", 0) != 0) copied_.resize(reads_);
        const auto play = args.find("play");
        if (play != args.end()) {
            std::ifstream file(play->second, std::ios::binary);
            played_.assign(std::istreambuf_iterator<char>(file), {});
            ends_ = played_.size() / 2;
        }
        const auto record = args.find("record");
        if (record != args.end()) record_.open(record->second, std::ios::app);
    }

    std::string getDriverKey() const override { return "ramp"; }
    std::string getHardwareKey() const override { return "Ramp"; }
    SoapySDR::Kwargs getHardwareInfo() const override { return {{"serial", serial_}}; }
    size_t getNumChannels(const int) const override { return channels_; }

    std::vector<std::string> getStreamFormats(const int, const size_t) const override
    {
        return {SOAPY_SDR_CU8, SOAPY_SDR_CS8, SOAPY_SDR_CS16, SOAPY_SDR_CF32};
    }

    std::string getNativeStreamFormat(const int, const size_t, double &full) const override
    {
        full = 32768;
        return SOAPY_SDR_CS16;
    }

    SoapySDR::Stream *setupStream(const int direction, const std::string &format,
        const std::vector<size_t> &channels, const SoapySDR::Kwargs &) override
    {
        const auto formats = getStreamFormats(direction, 0);
        const bool listed = std::find(formats.begin(), formats.end(), format) != formats.end();
        if (!listed || (args_.count("claims") != 0 && format != SOAPY_SDR_CS16))
            throw std::runtime_error("no stream of " + format);
        return reinterpret_cast<SoapySDR::Stream *>(new Stream{direction, format, channels});
    }

    void closeStream(SoapySDR::Stream *stream) override
    {
        while (stuck_) pause();
        delete reinterpret_cast<Stream *>(stream);
    }
    size_t getStreamMTU(SoapySDR::Stream *) const override { return reads_; }
    int activateStream(SoapySDR::Stream *, const int, const long long, const size_t) override { return 0; }
    int deactivateStream(SoapySDR::Stream *, const int, const long long) override { return 0; }

    int readStream(SoapySDR::Stream *handle, void *const *buffers, const size_t asked, int &flags,
        long long &time_ns, const long timeout_us) override
    {
        const Stream &stream = *reinterpret_cast<Stream *>(handle);
        if (broken_) return SOAPY_SDR_CORRUPTION;
        std::unique_lock<std::mutex> lock(mutex_);
        long long count = std::min<long long>(asked, reads_);
        for (const long long stop : {ends_, hang_, vanish_})
            if (stop >= 0) count = std::min(count, stop - index_);
        if (count <= 0 && index_ == hang_)
            for (;;) pause();
        if (count <= 0 && index_ == vanish_) {
            const std::lock_guard<std::mutex> lives_guard(lives_lock);
            lives[serial_] = {true, static_cast<long>(number(args_, "absent", 0))};
            return SOAPY_SDR_STREAM_ERROR;
        }
        if (count <= 0) {
            lock.unlock();
            usleep(timeout_us);
            return SOAPY_SDR_TIMEOUT;
        }
        for (auto *list : {&overflows_, &skips_, &backs_}) {
            if (list->empty()) continue;
            const Place next = list->front();
            if (index_ < next.index) {
                count = std::min(count, next.index - index_);
                continue;
            }
            list->erase(list->begin());
            if (list == &backs_) {
                start_ -= SoapySDR::ticksToTimeNs(next.count, rate_);
                continue;
            }
            index_ += next.count;
            if (list == &overflows_) return SOAPY_SDR_OVERFLOW;
        }
        flags = 0;
        if (stamps_ && !(sparse_ && index_ / reads_ % 2 == 1)) {
            flags |= SOAPY_SDR_HAS_TIME;
            time_ns = time_of(index_);
        }
        for (size_t n = 0; n < stream.channels.size(); n++)
            fill(stream.format, buffers[n], stream.channels[n], count);
        index_ += count;
        return long_ ? static_cast<int>(asked) + 1 : static_cast<int>(count);
    }

    int writeStream(SoapySDR::Stream *handle, const void *const *buffers, const size_t count, int &flags,
        const long long time_ns, const long timeout_us) override
    {
        const Stream &stream = *reinterpret_cast<Stream *>(handle);
        const size_t taken = std::min<size_t>(count, reads_);
        if (late_ && (flags & SOAPY_SDR_HAS_TIME) != 0 && time_ns < start_)
            statuses_.push_back({SOAPY_SDR_TIME_ERROR, time_ns});
        const bool ends = (flags & SOAPY_SDR_END_BURST) != 0 && taken == count;
        record_ << taken << ' ';
        if ((flags & SOAPY_SDR_HAS_TIME) != 0) record_ << time_ns; else record_ << '-';
        record_ << (ends ? " end" : " more");
        if (stream.format == SOAPY_SDR_CS16)
            for (size_t n = 0; n < stream.channels.size(); n++)
                for (size_t i = 0; i < taken; i++)
                    record_ << ' ' << static_cast<const std::complex<int16_t> *>(buffers[n])[i].real();
        record_ << std::endl;
        written_ += taken;
        if (underflow_ >= 0 && written_ > underflow_) {
            statuses_.push_back({SOAPY_SDR_UNDERFLOW, time_ns});
            underflow_ = -1;
        }
        (void)timeout_us;
        return static_cast<int>(taken);
    }

    int readStreamStatus(SoapySDR::Stream *, size_t &mask, int &flags, long long &time_ns, const long) override
    {
        if (statuses_.empty()) return SOAPY_SDR_TIMEOUT;
        const Status next = statuses_.front();
        statuses_.pop_front();
        mask = 1;
        flags = SOAPY_SDR_HAS_TIME;
        time_ns = next.time_ns;
        return next.code;
    }

    std::vector<std::string> listAntennas(const int, const size_t) const override { return {"RX", "AUX"}; }
    void setAntenna(const int, const size_t, const std::string &name) override
    {
        if (name != "RX" && name != "AUX") throw std::runtime_error("no antenna " + name);
        antenna_ = name;
    }
    std::string getAntenna(const int, const size_t) const override { return antenna_; }

    std::vector<std::string> listGains(const int, const size_t) const override { return {"LNA", "VGA"}; }
    SoapySDR::Range getGainRange(const int, const size_t, const std::string &) const override { return {0, 40, 2}; }
    void setGain(const int, const size_t, const std::string &stage, const double gain) override
    {
        (stage == "LNA" ? lna_ : vga_) = 2 * std::floor(std::min(std::max(gain, 0.0), 40.0) / 2);
    }
    double getGain(const int, const size_t, const std::string &stage) const override
    {
        return stage == "LNA" ? lna_ : vga_;
    }
    bool hasGainMode(const int, const size_t) const override { return true; }
    void setGainMode(const int, const size_t, const bool automatic) override { automatic_ = automatic; }
    bool getGainMode(const int, const size_t) const override { return automatic_; }
    bool hasFrequencyCorrection(const int, const size_t) const override { return true; }
    void setFrequencyCorrection(const int, const size_t, const double value) override { correction_ = value; }
    double getFrequencyCorrection(const int, const size_t) const override { return correction_; }

    // Reaches whole multiples of 1 kHz.
    void setFrequency(const int, const size_t, const double frequency, const SoapySDR::Kwargs &) override
    {
        if (frequency > 6e9) throw std::runtime_error("beyond 6 GHz");
        const std::lock_guard<std::mutex> lock(mutex_);
        const bool is_timed = timed_ && command_ns_ != 0;
        const long long from = is_timed
            ? std::llround((command_ns_ - start_) * rate_ / 1e9)
            : index_ + ahead_ + (tuned_.empty() ? 0 : tune_);
        tuned_[tuned_.empty() ? 0 : from] = 1e3 * std::round(frequency / 1e3);
    }
    SoapySDR::RangeList getFrequencyRange(const int, const size_t) const override { return {{0, 6e9}}; }
    double getFrequency(const int, const size_t) const override
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        return tuned_.empty() ? 0 : tuned_.rbegin()->second;
    }

    // Reaches whole multiples of 1 kHz.
    void setSampleRate(const int, const size_t, const double rate) override
    {
        const double reached = 1e3 * std::round(rate / 1e3);
        const std::lock_guard<std::mutex> lock(mutex_);
        start_ = time_of(index_) - SoapySDR::ticksToTimeNs(index_, reached);
        rate_ = reached;
    }
    SoapySDR::RangeList getSampleRateRange(const int, const size_t) const override { return {{1e3, 1e8}}; }
    double getSampleRate(const int, const size_t) const override { return rate_; }
    void setBandwidth(const int, const size_t, const double bandwidth) override { bandwidth_ = bandwidth; }
    SoapySDR::RangeList getBandwidthRange(const int, const size_t) const override { return {{0, 1e8}}; }
    double getBandwidth(const int, const size_t) const override { return bandwidth_; }

    std::vector<std::string> listClockSources() const override { return {"internal", "external"}; }
    void setClockSource(const std::string &name) override { clock_ = name; }
    std::string getClockSource() const override { return clock_; }
    std::vector<std::string> listTimeSources() const override { return {"none", "gps"}; }
    void setTimeSource(const std::string &name) override { time_ = name; }
    std::string getTimeSource() const override { return time_; }
    bool hasHardwareTime(const std::string &what) const override { return what == "CMD" ? timed_ : stamps_; }
    long long getHardwareTime(const std::string &) const override
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        return time_of(index_ + ahead_);
    }
    void setHardwareTime(const long long time_ns, const std::string &what) override
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (what == "CMD") command_ns_ = time_ns;
    }

    std::vector<std::string> listSensors() const override { return {"ref_locked", "temperature"}; }
    std::string readSensor(const std::string &name) const override
    {
        return name == "ref_locked" ? (clock_ == "external" ? "true" : "false") : "41.5";
    }

private:
    struct Status {
        int code;
        long long time_ns;
    };

    long long time_of(const long long index) const { return start_ + SoapySDR::ticksToTimeNs(index, rate_); }

    // The first number of a sample is its index, the second one is the frequency in MHz, and eight
    // times the channel.
    void fill(const std::string &format, void *out, const size_t channel, const long long count) const
    {
        if (!copied_.empty() && format == SOAPY_SDR_CS16) {
            std::copy_n(copied_.begin(), count, static_cast<std::complex<int16_t> *>(out));
            return;
        }
        for (long long i = 0; i < count; i++) {
            const long long index = index_ + i;
            if (!played_.empty() && format == SOAPY_SDR_CU8) {
                static_cast<std::complex<uint8_t> *>(out)[i] = {played_[2 * index], played_[2 * index + 1]};
                continue;
            }
            auto tuned = tuned_.upper_bound(index);
            const double megahertz = tuned == tuned_.begin() ? 0 : std::prev(tuned)->second / 1e6;
            const long long second = std::llround(megahertz) + 8 * static_cast<long long>(channel);
            if (format == SOAPY_SDR_CU8)
                static_cast<std::complex<uint8_t> *>(out)[i] = {static_cast<uint8_t>(index), static_cast<uint8_t>(second)};
            else if (format == SOAPY_SDR_CS8)
                static_cast<std::complex<int8_t> *>(out)[i] = {static_cast<int8_t>(index), static_cast<int8_t>(second)};
            else if (format == SOAPY_SDR_CS16)
                static_cast<std::complex<int16_t> *>(out)[i] = {static_cast<int16_t>(index), static_cast<int16_t>(second)};
            else
                static_cast<std::complex<float> *>(out)[i] = {static_cast<float>(index & 0xffffff), static_cast<float>(second)};
        }
    }

    const SoapySDR::Kwargs args_;
    // A server of SoapyRemote calls from several threads.
    mutable std::mutex mutex_;
    std::string serial_, antenna_ = "RX", clock_ = "internal", time_ = "none";
    size_t channels_;
    long long start_, reads_, ahead_, tune_, ends_, hang_, vanish_, underflow_;
    bool stamps_, sparse_, timed_, stuck_, broken_, long_, late_, automatic_ = false;
    std::vector<Place> overflows_, skips_, backs_;
    std::map<long long, double> tuned_;
    std::deque<Status> statuses_;
    std::ofstream record_;
    std::vector<uint8_t> played_;
    std::vector<std::complex<int16_t>> copied_;
    long long index_ = 0, written_ = 0, command_ns_ = 0;
    double rate_ = 1e6, lna_ = 0, vga_ = 0, bandwidth_ = 0, correction_ = 0;
};

SoapySDR::KwargsList find(const SoapySDR::Kwargs &args)
{
    SoapySDR::Kwargs found = args;
    found["driver"] = "ramp";
    found["label"] = "Ramp of the tests";
    if (found.count("serial") == 0) found["serial"] = "0001";
    return {found};
}

SoapySDR::Device *make(const SoapySDR::Kwargs &args)
{
    return new Ramp(args);
}

const SoapySDR::Registry registration("ramp", &find, &make, SOAPY_SDR_ABI_VERSION);

} // namespace

// The provides ports of BulkIO: servants that pass on everything they receive.

#include <map>
#include <vector>

#include "bulkio.h"

using stripline::guarded;

namespace {

// Returns the value of a keyword, if it is a number, a text, or true or false.
bool read(const CF::DataType &keyword, StriplineBulkioKeyword &into) {
  into = StriplineBulkioKeyword{keyword.id, nullptr, 0, 0, STRIPLINE_BULKIO_WHOLE};
  const CORBA::Any &value = keyword.value;
  CORBA::TypeCode_var type = value.type();
  CORBA::Long whole;
  CORBA::ULong natural;
  CORBA::Short small;
  CORBA::UShort small_natural;
  CORBA::LongLong large;
  CORBA::ULongLong large_natural;
  CORBA::Octet octet;
  CORBA::Float narrow;
  CORBA::Boolean truth;
  switch (type->kind()) {
    case CORBA::tk_long: return (value >>= whole) && (into.whole = whole, true);
    case CORBA::tk_ulong: return (value >>= natural) && (into.whole = natural, true);
    case CORBA::tk_short: return (value >>= small) && (into.whole = small, true);
    case CORBA::tk_ushort: return (value >>= small_natural) && (into.whole = small_natural, true);
    case CORBA::tk_longlong: return (value >>= large) && (into.whole = large, true);
    case CORBA::tk_octet: return (value >>= CORBA::Any::to_octet(octet)) && (into.whole = octet, true);
    case CORBA::tk_ulonglong:
      if (!(value >>= large_natural) || large_natural > INT64_MAX) return false;
      into.whole = static_cast<int64_t>(large_natural);
      return true;
    case CORBA::tk_boolean:
      into.kind = STRIPLINE_BULKIO_TRUTH;
      return (value >>= CORBA::Any::to_boolean(truth)) && (into.whole = truth, true);
    case CORBA::tk_float:
      into.kind = STRIPLINE_BULKIO_NUMBER;
      return (value >>= narrow) && (into.number = narrow, true);
    case CORBA::tk_double: {
      into.kind = STRIPLINE_BULKIO_NUMBER;
      CORBA::Double number;
      return (value >>= number) && (into.number = number, true);
    }
    case CORBA::tk_string:
      into.kind = STRIPLINE_BULKIO_TEXT;
      return value >>= into.text;
    default: return false;
  }
}

class ProvidesPort : public stripline::BulkioPort {
 public:
  ProvidesPort(const StriplineBulkioReceiver &receiver, void *context) : receiver(receiver), context(context) {}

  ~ProvidesPort() override {
    if (is_active) receiver.ended(context);
  }

  void take_stream(const BULKIO::StreamSRI &sri) {
    std::vector<StriplineBulkioKeyword> keywords;
    CF::Properties checked(sri.keywords.length());
    for (CORBA::ULong index = 0; index < sri.keywords.length(); ++index) {
      StriplineBulkioKeyword keyword;
      if (!read(sri.keywords[index], keyword)) continue;
      keywords.push_back(keyword);
      checked.length(checked.length() + 1);
      checked[checked.length() - 1] = sri.keywords[index];
    }
    const StriplineBulkioSri parts{sri.streamID, keywords.data(), keywords.size(), sri.xstart, sri.xdelta,
                                   sri.ystart,   sri.ydelta,      sri.subsize,     sri.xunits, sri.yunits,
                                   sri.mode,     sri.blocking};
    check(receiver.stream(context, &parts));
    // Keep only the checked keywords, which have a limit.
    BULKIO::StreamSRI kept(sri);
    kept.keywords = checked;
    std::lock_guard<std::mutex> turn(lock);
    streams[std::string(sri.streamID)] = kept;
  }

  void take_packet(const char *stream, const void *elements, size_t count, size_t bytes,
                   const BULKIO::PrecisionUTCTime &time, bool ends) {
    const StriplineBulkioTime parts{time.toff, time.twsec, time.tfsec, time.tcmode, time.tcstatus};
    check(receiver.packet(context, stream, static_cast<const uint8_t *>(elements), count, &parts, ends));
    traffic.count(count, bytes, receiver.fill(context));
    if (ends) {
      std::lock_guard<std::mutex> turn(lock);
      streams.erase(stream);
    }
  }

  BULKIO::StreamSRISequence *active() {
    std::lock_guard<std::mutex> turn(lock);
    BULKIO::StreamSRISequence_var result = new BULKIO::StreamSRISequence;
    result->length(static_cast<CORBA::ULong>(streams.size()));
    CORBA::ULong index = 0;
    for (const auto &stream : streams) result[index++] = stream.second;
    return result._retn();
  }

  BULKIO::PortUsageType usage() {
    double fill = receiver.fill(context);
    return fill >= 1 ? BULKIO::BUSY : fill > 0 ? BULKIO::ACTIVE : BULKIO::IDLE;
  }

  BULKIO::PortStatistics *statistics_of_it() {
    std::set<std::string> names;
    {
      std::lock_guard<std::mutex> turn(lock);
      for (const auto &stream : streams) names.insert(stream.first);
    }
    return new BULKIO::PortStatistics(traffic.statistics(name, names));
  }

 private:
  static void check(int answer) {
    if (answer == 1) throw CORBA::BAD_PARAM(0, CORBA::COMPLETED_NO);
    if (answer) throw CORBA::OBJECT_NOT_EXIST(0, CORBA::COMPLETED_NO);
  }

  const StriplineBulkioReceiver receiver;
  void *const context;
  stripline::Traffic traffic;
  std::mutex lock;
  std::map<std::string, BULKIO::StreamSRI> streams;
};

template <class Port>
class DataServant : public virtual stripline::Data<Port>::Servant,
                    public virtual PortableServer::RefCountServantBase,
                    public ProvidesPort {
 public:
  using Base = ProvidesPort;
  using Sequence = typename stripline::Data<Port>::Sequence;

  DataServant(const StriplineBulkioReceiver *receiver, void *context) : ProvidesPort(*receiver, context) {}

  PortableServer::ServantBase *servant() override { return this; }
  void pushSRI(const BULKIO::StreamSRI &sri) override { take_stream(sri); }
  void pushPacket(const Sequence &data, const BULKIO::PrecisionUTCTime &time, CORBA::Boolean ends,
                  const char *stream) override {
    const auto *elements = data.get_buffer();
    take_packet(stream, elements, data.length(), data.length() * sizeof *elements, time, ends);
  }
  BULKIO::StreamSRISequence *activeSRIs() override { return active(); }
  BULKIO::PortUsageType state() override { return usage(); }
  BULKIO::PortStatistics *statistics() override { return statistics_of_it(); }
};

}  // namespace

void *stripline_bulkio_provide(int type, const char *object, const StriplineBulkioReceiver *receiver, void *context,
                               StriplineCorbaText problem) noexcept {
  return guarded(static_cast<void *>(nullptr), problem, [&]() -> void * {
    auto port = stripline::make_port<DataServant>(type, receiver, context);
    PortableServer::ServantBase_var keeper(port->servant());
    port->activate(object);
    port->servant()->_add_ref();
    return static_cast<stripline::BulkioPort *>(port);
  });
}

int stripline_bulkio_connect_to(void *port, const char *reference, const char *connection,
                                StriplineCorbaText problem) noexcept {
  return guarded(1, problem, [&] {
    stripline::CallTimeout timeout;
    CORBA::Object_var object = stripline::object_of(reference);
    CF::Port_var uses = CF::Port::_narrow(object);
    if (CORBA::is_nil(uses)) {
      stripline::write_text(problem, "it is not %s but %s", CF::Port::_PD_repoId, stripline::type_of(object));
      return 1;
    }
    try {
      uses->connectPort(static_cast<stripline::BulkioPort *>(port)->object, connection);
      return 0;
    } catch (const CF::Port::InvalidPort &e) {
      stripline::write_text(problem, "it answers InvalidPort: %s%s", e.msg);
    }
    return 1;
  });
}

int stripline_bulkio_disconnect_from(const char *reference, const char *connection,
                                     StriplineCorbaText problem) noexcept {
  return guarded(1, problem, [&] {
    stripline::CallTimeout timeout;
    CORBA::Object_var object = stripline::object_of(reference);
    CF::Port_var uses = CF::Port::_unchecked_narrow(object);
    uses->disconnectPort(connection);
    return 0;
  });
}

// References to objects, and names in naming services.

#include <omniORB4/Naming.hh>
#include <omniORB4/omniURI.h>

#include <cstring>

#include "bulkio.h"

using stripline::guarded;

namespace stripline {

namespace {

// A call that fails is reported. omniORB must not repeat it for half a minute.
CORBA::Boolean never(void *, CORBA::ULong, const CORBA::TRANSIENT &) { return 0; }

PortableServer::POA_ptr poa() {
  CORBA::Object_var object = orb()->resolve_initial_references("omniINSPOA");
  return PortableServer::POA::_narrow(object);
}

// A place in a naming service.
struct Place {
  CosNaming::NamingContext_var context;
  CosNaming::Name_var name;

  explicit Place(const char *text) {
    const char *hash = std::strchr(text, '#');
    if (!hash || !hash[1]) throw CORBA::BAD_PARAM(0, CORBA::COMPLETED_NO);
    name = omni::omniURI::stringToName(hash + 1);
    CORBA::Object_var service = object_of(std::string(text, hash).c_str());
    context = CosNaming::NamingContext::_narrow(service);
    if (CORBA::is_nil(context)) throw CORBA::INV_OBJREF(0, CORBA::COMPLETED_NO);
  }

  // Creates the contexts that contain the name.
  void make_contexts() {
    CosNaming::Name outer;
    for (CORBA::ULong length = 1; length < name->length(); ++length) {
      outer.length(length);
      outer[length - 1] = name[length - 1];
      try {
        CosNaming::NamingContext_var made = context->bind_new_context(outer);
      } catch (const CosNaming::NamingContext::AlreadyBound &) {
      }
    }
  }

  // Returns the object of this name.
  CORBA::Object_ptr object() { return context->resolve(name); }

  bool is_of_something_alive() {
    try {
      CORBA::Object_var there = object();
      omniORB::installTransientExceptionHandler(there, nullptr, never);
      return !there->_non_existent();
    } catch (const CORBA::Exception &) {
      return false;
    }
  }
};

}  // namespace

void BulkioPort::activate(const char *key) {
  PortableServer::POA_var adapter = poa();
  PortableServer::ObjectId_var id = PortableServer::string_to_ObjectId(key);
  adapter->activate_object_with_id(id, servant());
  name = key;
  object = adapter->id_to_reference(id);
  is_active = true;
}

void BulkioPort::deactivate() {
  PortableServer::POA_var adapter = poa();
  PortableServer::ObjectId_var id = PortableServer::string_to_ObjectId(name.c_str());
  adapter->deactivate_object(id);
}

CORBA::Object_ptr object_of(const char *reference) {
  // The name is resolved here, so that a missing name raises a different exception.
  bool is_named = !std::strncmp(reference, "corbaname:", 10) && std::strchr(reference, '#');
  CORBA::Object_var object = is_named ? Place(reference).object() : orb()->string_to_object(reference);
  if (CORBA::is_nil(object)) throw CORBA::INV_OBJREF(0, CORBA::COMPLETED_NO);
  omniORB::installTransientExceptionHandler(object, nullptr, never);
  return object._retn();
}

const char *type_of(CORBA::Object_ptr object) {
  const char *id = object->_PR_getobj()->_mostDerivedRepoId();
  return id && *id ? id : "an object without a type";
}

}  // namespace stripline

void stripline_bulkio_end(void *port) noexcept {
  auto bulkio_port = static_cast<stripline::BulkioPort *>(port);
  guarded(0, StriplineCorbaText{nullptr, 0}, [&] {
    bulkio_port->deactivate();
    return 0;
  });
  bulkio_port->servant()->_remove_ref();
}

int stripline_bulkio_reference(void *port, StriplineCorbaText into, StriplineCorbaText problem) noexcept {
  return guarded(1, problem, [&] {
    CORBA::String_var text = stripline::orb()->object_to_string(static_cast<stripline::BulkioPort *>(port)->object);
    stripline::write_text(into, "%s%s", text);
    return std::strlen(text) < into.size ? 0 : 1;
  });
}

int stripline_bulkio_bind(void *port, const char *name, StriplineCorbaText problem) noexcept {
  return guarded(2, problem, [&] {
    stripline::CallTimeout timeout;
    CORBA::Object_ptr object = static_cast<stripline::BulkioPort *>(port)->object;
    stripline::Place place(name);
    place.make_contexts();
    try {
      place.context->bind(place.name, object);
    } catch (const CosNaming::NamingContext::AlreadyBound &) {
      if (place.is_of_something_alive()) return 1;
      place.context->rebind(place.name, object);
    }
    return 0;
  });
}

void stripline_bulkio_unbind(void *port, const char *name) noexcept {
  guarded(0, StriplineCorbaText{nullptr, 0}, [&] {
    stripline::CallTimeout timeout;
    stripline::Place place(name);
    CORBA::Object_var there = place.object();
    if (there->_is_equivalent(static_cast<stripline::BulkioPort *>(port)->object)) place.context->unbind(place.name);
    return 0;
  });
}

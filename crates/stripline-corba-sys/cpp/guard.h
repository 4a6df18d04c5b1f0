// Runs a function, and turns any exception into a message.
#pragma once

#include <omniORB4/CORBA.h>

#include <cstdio>
#include <exception>

#include "stripline_corba.h"

namespace stripline {

inline void write_text(StriplineCorbaText text, const char *format, const char *first, const char *second = "") {
  if (text.start && text.size) std::snprintf(text.start, text.size, format, first, second);
}

// Returns the result of the function, or `failed` after an exception.
template <class Result, class Function>
Result guarded(Result failed, StriplineCorbaText problem, Function function) noexcept {
  try {
    return function();
  } catch (const CORBA::SystemException &e) {
    const char *minor = e.NP_minorString();
    write_text(problem, "%s (%s)", e._name(), minor ? minor : "without a reason");
  } catch (const CORBA::Exception &e) {
    write_text(problem, "%s%s", e._name());
  } catch (const omniORB::fatalException &e) {
    write_text(problem, "omniORB: %s%s", e.errmsg());
  } catch (const std::exception &e) {
    write_text(problem, "%s%s", e.what());
  } catch (...) {
    write_text(problem, "%s%s", "an exception of an unknown type");
  }
  return failed;
}

// Returns the ORB that was started. The ORB lives until the process ends.
CORBA::ORB_ptr orb();

}  // namespace stripline

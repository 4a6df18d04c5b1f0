// TLS of omniORB, for builds that have the headers of omniORB's TLS and of OpenSSL.

#include "guard.h"

#ifdef STRIPLINE_CORBA_TLS

#include <omniORB4/sslContext.h>
#include <openssl/err.h>

#include <memory>
#include <stdexcept>
#include <string>

namespace {

// A key with a password is refused, because nothing can ask for the password.
int no_password(char *, int, int, void *) { return 0; }

[[noreturn]] void refuse(const char *file, const char *role) {
  unsigned long code = ERR_peek_last_error();
  const char *reason = code ? ERR_reason_error_string(code) : nullptr;
  std::string problem = std::string(file) + " has no " + role + " in PEM: " + (reason ? reason : "no reason");
  ERR_clear_error();
  throw std::runtime_error(problem);
}

// Each end presents a certificate, even if the environment sets another mode.
class Context : public sslContext {
 public:
  Context(const char *ca, const char *certificate, const char *private_key)
      : sslContext(keep(0, ca), keep(1, certificate), ""), key(private_key) {}

  // Reads all files, so that an error names the wrong file.
  static void check(const char *ca, const char *certificate, const char *key) {
    std::unique_ptr<SSL_CTX, void (*)(SSL_CTX *)> context(SSL_CTX_new(TLS_method()), SSL_CTX_free);
    if (!context) refuse("OpenSSL", "context");
    ERR_clear_error();
    SSL_CTX_set_default_passwd_cb(context.get(), no_password);
    if (SSL_CTX_load_verify_locations(context.get(), ca, nullptr) != 1) refuse(ca, "certificates");
    if (SSL_CTX_use_certificate_chain_file(context.get(), certificate) != 1) refuse(certificate, "certificate");
    if (SSL_CTX_use_PrivateKey_file(context.get(), key, SSL_FILETYPE_PEM) != 1)
      refuse(key, "private key that fits the certificate, and has no password,");
  }

 protected:
  void set_supported_versions() override { SSL_CTX_set_min_proto_version(get_SSL_CTX(), TLS1_2_VERSION); }
  void set_privatekey() override {
    if (SSL_CTX_use_PrivateKey_file(get_SSL_CTX(), key.c_str(), SSL_FILETYPE_PEM) != 1)
      refuse(key.c_str(), "private key");
  }
  // Uses the parameters of OpenSSL.
  void set_DH() override { SSL_CTX_set_dh_auto(get_SSL_CTX(), 1); }
  void set_cipher() override {}
  void set_ephemeralRSA() override {}
  int set_verify_mode() override { return SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT; }

 private:
  // The base class keeps the pointers that it gets, so the texts must stay.
  static const char *keep(int place, const char *text) {
    static std::string kept[2];
    kept[place] = text;
    return kept[place].c_str();
  }

  std::string key;
};

}  // namespace

int stripline_corba_has_tls() noexcept { return 1; }

int stripline_corba_use_tls(const char *ca, const char *certificate, const char *private_key,
                            StriplineCorbaText problem) noexcept {
  return stripline::guarded(1, problem, [&] {
    Context::check(ca, certificate, private_key);
    // The ORB takes the context when it starts, and keeps it.
    sslContext::singleton = new Context(ca, certificate, private_key);
    return 0;
  });
}

#else

int stripline_corba_has_tls() noexcept { return 0; }

int stripline_corba_use_tls(const char *, const char *, const char *, StriplineCorbaText problem) noexcept {
  stripline::write_text(problem, "%s%s", "omniORB's TLS was not there when this program was built");
  return 1;
}

#endif

package webaccess

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authentication "k8s.io/api/authentication/v1"

	"addon-operator/cmd/addon-operator/webui"
)

// A pair has the files of a certificate and its key.
type pair struct{ cert, key string }

// write writes a new certificate with a serial number, and its key. The argument changed is the modification time of
// both files.
func (p pair) write(t *testing.T, serial int64, changed time.Time) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{p.cert: {Type: "CERTIFICATE", Bytes: der}, p.key: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := errors.Join(os.WriteFile(file, pem.EncodeToMemory(block), 0o600), os.Chtimes(file, changed, changed)); err != nil {
			t.Fatal(err)
		}
	}
}

// served returns the serial number of the certificate in a handshake.
func served(t *testing.T, c *Certificate) int64 {
	t.Helper()
	got, err := c.Config().GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	return got.Leaf.SerialNumber.Int64()
}

func TestAHandshakeUsesTheCurrentCertificate(t *testing.T) {
	t.Parallel()
	p := pair{filepath.Join(t.TempDir(), "tls.crt"), filepath.Join(t.TempDir(), "tls.key")}
	began := time.Now().Add(-time.Hour)
	p.write(t, 1, began)
	c, err := LoadCertificate(p.cert, p.key)
	if err != nil {
		t.Fatal(err)
	}
	if got := served(t, c); got != 1 {
		t.Errorf("certificate %d is served, want 1", got)
	}
	p.write(t, 2, began.Add(time.Minute))
	if got := served(t, c); got != 2 {
		t.Errorf("certificate %d is served after the replacement, want 2", got)
	}
	later := began.Add(2 * time.Minute)
	if err := errors.Join(os.WriteFile(p.cert, []byte("half a certificate"), 0o600), os.Chtimes(p.cert, later, later)); err != nil {
		t.Fatal(err)
	}
	if got := served(t, c); got != 2 {
		t.Errorf("certificate %d is served while the files are damaged, want the last good one", got)
	}
	if err := os.Remove(p.key); err != nil {
		t.Fatal(err)
	}
	if got := served(t, c); got != 2 {
		t.Errorf("certificate %d is served while a file is missing, want the last good one", got)
	}
	p.write(t, 3, later)
	if got := served(t, c); got != 3 {
		t.Errorf("certificate %d is served after the repair, want 3", got)
	}
}

func TestACertificateThatCannotBeLoadedIsAnErrorAtTheStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one, two := pair{filepath.Join(dir, "1.crt"), filepath.Join(dir, "1.key")}, pair{filepath.Join(dir, "2.crt"), filepath.Join(dir, "2.key")}
	one.write(t, 1, time.Now())
	two.write(t, 2, time.Now())
	for name, c := range map[string]struct {
		cert, key string
		want      string
	}{
		"the key of another certificate": {one.cert, two.key, "certificate of the web page, " + one.cert + " with key " + two.key + ": tls: private key does not match public key"},
		"no certificate":                 {filepath.Join(dir, "none"), one.key, "certificate of the web page: stat " + filepath.Join(dir, "none") + ": no such file or directory"},
		"no key":                         {one.cert, filepath.Join(dir, "none"), "certificate of the web page: stat " + filepath.Join(dir, "none") + ": no such file or directory"},
		"files in the wrong order":       {one.key, one.cert, "certificate of the web page, " + one.key + " with key " + one.cert + ": tls: "},
	} {
		if _, err := LoadCertificate(c.cert, c.key); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %s", name, err, c.want)
		}
	}
}

func TestThePageIsServedOverTLSWithThisCertificate(t *testing.T) {
	t.Parallel()
	p := pair{filepath.Join(t.TempDir(), "tls.crt"), filepath.Join(t.TempDir(), "tls.key")}
	p.write(t, 7, time.Now())
	c, err := LoadCertificate(p.cert, p.key)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // discards the line that the server logs about the refused handshake
	server.Listener = tls.NewListener(server.Listener, c.Config())
	server.Start()
	t.Cleanup(server.Close)
	dial := func(most uint16) (*tls.Conn, error) {
		dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: most, NextProtos: []string{"h2"}}} //nolint:gosec // the certificate is compared below
		conn, err := dialer.DialContext(t.Context(), "tcp", server.Listener.Addr().String())
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn.(*tls.Conn), nil //nolint:forcetypeassert // a tls.Dialer returns a *tls.Conn
	}
	conn, err := dial(tls.VersionTLS13)
	if err != nil {
		t.Fatal(err)
	}
	if state := conn.ConnectionState(); state.PeerCertificates[0].SerialNumber.Int64() != 7 || state.NegotiatedProtocol != "h2" {
		t.Errorf("the server has certificate %s and speaks %q", state.PeerCertificates[0].SerialNumber, state.NegotiatedProtocol)
	}
	if _, err := dial(tls.VersionTLS11); err == nil {
		t.Error("the server speaks TLS 1.1")
	}
}

func TestTheTokenOfARequestIsThatOfItsHeaderOrOfItsCookie(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ header, cookie, want string }{
		"a header":                  {"Bearer abc", "", "abc"},
		"a header in lower case":    {"bearer abc", "", "abc"},
		"blanks around the token":   {"Bearer  abc ", "", "abc"},
		"a cookie":                  {"", "abc", "abc"},
		"both":                      {"Bearer abc", "def", "abc"},
		"another scheme":            {"Basic abc", "def", "def"},
		"a header without a scheme": {"abc", "", ""},
		"an empty token":            {"Bearer ", "def", ""},
		"nothing":                   {"", "", ""},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		if c.header != "" {
			r.Header.Set("Authorization", c.header)
		}
		if c.cookie != "" {
			r.AddCookie(&http.Cookie{Name: webui.TokenCookie, Value: c.cookie, Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode})
		}
		if got := token(r); got != c.want {
			t.Errorf("%s: token %q, want %q", name, got, c.want)
		}
	}
}

func TestARightOfOneTokenIsNoRightOfAnother(t *testing.T) {
	t.Parallel()
	right := webui.Right{Verb: "create", Resource: "tasks", Subresource: "skip"}
	keys := map[string]bool{}
	for _, p := range []person{
		{authentication.UserInfo{Username: "a"}},
		{authentication.UserInfo{Username: "a", UID: "1"}},
		{authentication.UserInfo{Username: "a", Groups: []string{"g"}}},
		{authentication.UserInfo{Username: "a", Extra: map[string]authentication.ExtraValue{"scopes": {"view"}}}},
	} {
		keys[p.key(right)] = true
	}
	if len(keys) != 4 {
		t.Errorf("the decisions of 4 persons have %d keys", len(keys))
	}
}

// stranger is a person that the API server has not named.
type stranger struct{}

func (stranger) Name() string { return "system:admin" }

// TestAPersonIsNotKnownWithoutATokenOfTheAPIServer uses an Access without an API server. The Access must reject a
// request without a token. It must also reject a person whom another source has identified. In both cases, it must not
// ask the API server.
func TestAPersonIsNotKnownWithoutATokenOfTheAPIServer(t *testing.T) {
	t.Parallel()
	a := New(nil, "shop")
	if p, err := a.Person(httptest.NewRequest(http.MethodGet, "/", http.NoBody)); p != nil || !errors.Is(err, webui.ErrUnknown) {
		t.Errorf("without a token: %v, error %v", p, err)
	}
	if allowed, err := a.Allows(t.Context(), stranger{}, webui.Right{Verb: "get", Resource: "status"}); allowed || err != nil {
		t.Errorf("a person of another source is allowed: %t, error %v", allowed, err)
	}
}

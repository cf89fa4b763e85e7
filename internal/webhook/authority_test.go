package webhook

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"strings"
	"testing"
	"time"
)

func TestACertificateIsValidForItsHostsAsLongAsItsCA(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC)
	ca, err := newAuthority(now, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.pair([]string{"hooks.ops.svc", "10.0.0.1", "fd00::1"})
	if err != nil {
		t.Fatal(err)
	}
	if !pair.Expires.Equal(now.Add(time.Hour)) || !pair.Certificate.Leaf.NotAfter.Equal(pair.Expires) || string(pair.CA) != string(ca.text) {
		t.Errorf("it expires at %s, its certificate at %s", pair.Expires, pair.Certificate.Leaf.NotAfter)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pair.CA)
	for name, test := range map[string]struct {
		host string
		at   time.Time
		ok   bool
	}{
		"name":                           {"hooks.ops.svc", now, true},
		"address":                        {"10.0.0.1", now, true},
		"IPv6 address":                   {"fd00::1", now, true},
		"other name":                     {"hooks.other.svc", now, false},
		"other address":                  {"10.0.0.2", now, false},
		"clock of the client is behind":  {"hooks.ops.svc", now.Add(-clockSkew), true},
		"clock of the client is too far": {"hooks.ops.svc", now.Add(-clockSkew - time.Second), false},
		"end of the lifetime":            {"hooks.ops.svc", now.Add(time.Hour), true},
		"after the lifetime":             {"hooks.ops.svc", now.Add(time.Hour + time.Second), false},
	} {
		_, err := pair.Certificate.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: test.host, CurrentTime: test.at})
		if (err == nil) != test.ok {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if err := pair.signed(); err != nil {
		t.Error(err)
	}
}

func TestAStoredCAIsReadAgain(t *testing.T) {
	t.Parallel()
	ca := newTestAuthority(t)
	again, err := readAuthority(ca.text, ca.keyText)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := again.pair([]string{"x"})
	if err != nil {
		t.Fatal(err)
	}
	pair.CA = ca.text
	if err := pair.signed(); err != nil {
		t.Errorf("the certificate of the stored CA: %v", err)
	}
}

func TestTextsThatAreNotACAAreRejected(t *testing.T) {
	t.Parallel()
	ca, other := newTestAuthority(t), newTestAuthority(t)
	pair, err := ca.pair([]string{"x"})
	if err != nil {
		t.Fatal(err)
	}
	leafKey, err := x509.MarshalPKCS8PrivateKey(pair.Certificate.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	key, err := rsa.GenerateKey(rand.Reader, 1024) //nolint:gosec // a weak key is enough, because it protects nothing
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: ca.certificate.SerialNumber, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	const noCA = "not a CA with an elliptic-curve key"
	for name, test := range map[string]struct {
		text, key []byte
		want      string
	}{
		"nothing":             {nil, nil, "failed to find any PEM data"},
		"no key":              {ca.text, nil, "failed to find any PEM data in key input"},
		"key of another CA":   {ca.text, other.keyText, "private key does not match public key"},
		"server certificate":  {pemOf("CERTIFICATE", pair.Certificate.Certificate[0]), pemOf("PRIVATE KEY", leafKey), noCA},
		"CA with an RSA key":  {pemOf("CERTIFICATE", der), pemOf("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key)), noCA},
		"damaged certificate": {pemOf("CERTIFICATE", []byte("x")), ca.keyText, "x509: malformed certificate"},
	} {
		if _, err := readAuthority(test.text, test.key); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", name, err, test.want)
		}
	}
}

func TestACAIsReplacedAfterHalfOfItsLifetime(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC)
	ca, err := newAuthority(now, 10*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		now      time.Time
		lifetime time.Duration
		want     time.Time
	}{
		"new":                        {now, 10 * time.Hour, now.Add(5 * time.Hour)},
		"old":                        {now.Add(9 * time.Hour), 10 * time.Hour, now.Add(5 * time.Hour)},
		"lifetime reduced":           {now, 9 * time.Hour, now},
		"reduced, and as long ago":   {now.Add(time.Hour), 9 * time.Hour, now.Add(5*time.Hour + 30*time.Minute)},
		"lifetime increased to 20 h": {now, 20 * time.Hour, now},
	} {
		if got := ca.due(test.now, test.lifetime); !got.Equal(test.want) {
			t.Errorf("%s: due at %s, want %s", name, got, test.want)
		}
	}
}

func TestACertificateOfAnotherCAIsNotSigned(t *testing.T) {
	t.Parallel()
	ca, other := newTestAuthority(t), newTestAuthority(t)
	pair, err := ca.pair([]string{"x"})
	if err != nil {
		t.Fatal(err)
	}
	foreign := pair
	foreign.CA = other.text
	if foreign.signed() == nil {
		t.Error("the certificate of another CA is signed")
	}
	both := pair
	both.CA = append(append([]byte{}, other.text...), ca.text...)
	if err := both.signed(); err != nil {
		t.Errorf("a bundle with the CA: %v", err)
	}
	expired, err := newAuthority(time.Now().Add(-2*time.Hour), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	old, err := expired.pair([]string{"x"})
	if err != nil {
		t.Fatal(err)
	}
	if err := old.signed(); err != nil {
		t.Errorf("an expired certificate, which its CA has signed: %v", err)
	}
}

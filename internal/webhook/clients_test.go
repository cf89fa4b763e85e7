package webhook

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// client returns a client certificate that the CA a has signed.
func (a *authority) client(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := newSerial()
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, NotBefore: a.certificate.NotBefore, NotAfter: a.certificate.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, a.certificate, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// A gateway is a server that accepts only clients whose certificate was signed by a CA in a file.
type gateway struct {
	url   string
	roots *x509.CertPool
	file  string
}

func newGateway(t *testing.T, ca *authority) (gateway, *Clients) {
	t.Helper()
	pair, err := ca.pair([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	rotator := NewRotator(0, time.Now, nil, nil)
	rotator.Offer(pair)
	g := gateway{roots: x509.NewCertPool(), file: filepath.Join(t.TempDir(), "clients.crt")}
	g.roots.AppendCertsFromPEM(ca.text)
	g.trust(t, ca)
	clients, err := NewClients([]string{g.file})
	if err != nil {
		t.Fatal(err)
	}
	port, err := serve(t, Table{}, nil, 1, nil).Listen(t.Context(), "127.0.0.1:0", rotator, clients)
	if err != nil {
		t.Fatal(err)
	}
	g.url = fmt.Sprintf("https://127.0.0.1:%d/healthz", port)
	return g, clients
}

// trust writes the certificate of ca to the file with the CAs of clients.
func (g gateway) trust(t *testing.T, ca *authority) {
	t.Helper()
	if err := os.WriteFile(g.file, ca.text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// visitor returns an HTTP client with these certificates. It opens a connection for each request,
// and resumes TLS sessions.
func (g gateway) visitor(certificates ...tls.Certificate) *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{
		RootCAs: g.roots, Certificates: certificates, ClientSessionCache: tls.NewLRUClientSessionCache(1), MinVersion: tls.VersionTLS12,
	}}}
}

// served reports whether the server accepts the visitor.
func (g gateway) served(visitor *http.Client) bool {
	response, err := visitor.Get(g.url)
	return err == nil && response.Body.Close() == nil && response.StatusCode == http.StatusOK
}

func TestClientsNeedACertificateWhereOneIsAskedFor(t *testing.T) {
	t.Parallel()
	ours, other := newTestAuthority(t), newTestAuthority(t)
	g, _ := newGateway(t, ours)
	if g.served(g.visitor()) {
		t.Error("a client without a certificate is accepted")
	}
	if g.served(g.visitor(other.client(t))) {
		t.Error("a certificate of another CA is accepted")
	}
	if !g.served(g.visitor(ours.client(t))) {
		t.Error("a certificate of the CA is rejected")
	}
	if pair, err := ours.pair([]string{"127.0.0.1"}); err != nil || g.served(g.visitor(pair.Certificate)) {
		t.Errorf("the certificate of a server is accepted (%v)", err)
	}
}

func TestCAsOfClientsAreReadAgainWhenTheyChange(t *testing.T) {
	t.Parallel()
	first, second := newTestAuthority(t), newTestAuthority(t)
	g, clients := newGateway(t, first)
	early, late := g.visitor(first.client(t)), g.visitor(second.client(t))
	if !g.served(early) || g.served(late) {
		t.Fatal("it does not begin with the first CA")
	}
	failed := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { clients.Watch(ctx, func(error) { signal(failed) }) })
	g.trust(t, second)
	for began := time.Now(); !g.served(late); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > 90*time.Second {
			t.Fatal("after 90 s the second CA is not known")
		}
	}
	if g.served(early) {
		t.Error("a resumed session of the first CA is accepted")
	}
	if err := os.WriteFile(g.file, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	await(t, failed)
	if !g.served(late) {
		t.Error("an invalid file removed the CAs that were read before")
	}
}

func newTestAuthority(t *testing.T) *authority {
	t.Helper()
	ca, err := newAuthority(time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

package webhook

import (
	"context"
	"crypto/x509"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// handshakes returns an error if a client that trusts the CAs in bundle rejects the certificate of
// the rotator.
func handshakes(k *Rotator, bundle []byte, host string, now time.Time) error {
	certificate, err := k.Certificate(nil)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	_, err = certificate.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: now})
	return err
}

// memorySecret is a Secret in memory.
type memorySecret struct {
	mu   sync.Mutex
	data map[string][]byte // guarded by mu
	fail int               // number of the next reads and writes that fail; guarded by mu
}

func (s *memorySecret) Read(context.Context) (map[string][]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail > 0 {
		s.fail--
		return nil, errors.New("away")
	}
	return maps.Clone(s.data), nil
}

func (s *memorySecret) Write(_ context.Context, data map[string][]byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail > 0 {
		s.fail--
		return errors.New("away")
	}
	s.data = maps.Clone(data)
	return nil
}

// An apiServer simulates an API server, which loads a bundle of CAs some time after its
// registration.
type apiServer struct {
	mu     sync.Mutex
	bundle []byte // guarded by mu
}

// issue runs an issuer and its rotator until the test ends or stop is called. The argument lag is the
// time after which the simulated API server loads a new bundle.
func issue(t *testing.T, secret Secret, lifetime, lag time.Duration) (k *Rotator, server *apiServer, stop func()) {
	t.Helper()
	return issueByClock(t, time.Now, secret, lifetime, lag)
}

// issueByClock is like issue, but the operator has another clock than the API server.
func issueByClock(t *testing.T, clock func() time.Time, secret Secret, lifetime, lag time.Duration) (k *Rotator, server *apiServer, stop func()) {
	t.Helper()
	i := &Issuer{
		Secret: secret, Lifetime: lifetime, Hosts: []string{"gate.ns.svc", "127.0.0.1"}, Clock: clock,
		Failed: func(error) {}, Made: func(time.Time) {},
	}
	server = &apiServer{}
	changed := make(chan struct{}, 1)
	k = i.NewRotator(func() { signal(changed) })
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { k.Run(ctx) })
	running.Go(func() { i.Run(ctx, k) })
	running.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
			if bundle := k.Bundle(); bundle != nil && pause(ctx, lag) {
				server.mu.Lock()
				server.bundle = bundle
				server.mu.Unlock()
				k.InForce(bundle)
			}
		}
	})
	return k, server, sync.OnceFunc(func() { cancel(); running.Wait() })
}

func (s *apiServer) connects(k *Rotator) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return handshakes(k, s.bundle, "gate.ns.svc", time.Now())
}

// TestACertificateThatCannotBeCreatedIsTriedAgain runs an issuer for a host name that no certificate can contain.
func TestACertificateThatCannotBeCreatedIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		failures := 0
		i := &Issuer{
			Secret: &memorySecret{}, Lifetime: time.Hour, Hosts: []string{"münchen.example"}, Clock: time.Now,
			Failed: func(err error) {
				failures++
				if !strings.Contains(err.Error(), `certificates of the webhooks: make a certificate for ["münchen.example"]: `) {
					t.Errorf("got %v", err)
				}
			},
			Made: func(time.Time) {},
		}
		rotator := i.NewRotator(func() {})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		i.Run(ctx, rotator)
		if ctx.Err() == nil || failures < 2 {
			t.Errorf("it was tried %d times, and then given up: %t", failures, ctx.Err() == nil)
		}
	})
}

func TestCertificatesAreReplacedInTimeAndAlwaysTrusted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		secret := &memorySecret{fail: 3}
		k, server, stop := issue(t, secret, 24*time.Hour, time.Second)
		defer func() { stop() }()
		time.Sleep(time.Minute)
		served := map[string]bool{}
		for hour := range 100 {
			if hour == 30 || hour == 60 { // another process continues
				stop()
				bundle := server.bundle
				k, server, stop = issue(t, secret, 24*time.Hour, time.Second)
				server.bundle = bundle
				synctest.Wait()
				if err := server.connects(k); err != nil {
					t.Fatalf("after a restart, before the first registration: %v", err)
				}
			}
			if err := server.connects(k); err != nil {
				t.Fatalf("in hour %d: %v", hour, err)
			}
			certificate, _ := k.Certificate(nil)
			served[certificate.Leaf.Issuer.CommonName] = true
			if left := time.Until(certificate.Leaf.NotAfter); left < 11*time.Hour {
				t.Fatalf("in hour %d, the certificate in use is valid for only %s", hour, left)
			}
			time.Sleep(time.Hour)
		}
		if len(served) < 8 || len(served) > 10 {
			t.Errorf("%d CAs in 100 hours, each good for 24, want one each 12", len(served))
		}
	})
}

func TestNoCertificateIsUsedBeforeItsCAIsInForce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, server, stop := issue(t, &memorySecret{}, time.Hour, 20*time.Minute) // the API server loads bundles slowly
		defer stop()
		time.Sleep(21 * time.Minute)
		for range 200 {
			if err := server.connects(k); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
	})
}

func TestACertificateIsReplacedSoonAfterTheClockHasBeenCorrected(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for name, wrong := range map[string]time.Duration{
		"the clock was behind, so the certificate has expired":     -200 * day,
		"the clock was behind, and the certificate expires soon":   -80 * day,
		"the clock was ahead, so the certificate is not valid yet": 200 * day,
		"the clock was ahead, but by less than the tolerated skew": time.Minute,
		"the clock was right": 0,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var offset atomic.Int64
				offset.Store(int64(wrong))
				clock := func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }
				k, server, stop := issueByClock(t, clock, &memorySecret{}, 90*day, time.Second)
				defer stop()
				time.Sleep(time.Minute)
				offset.Store(0)
				corrected := time.Now()
				for range 100 {
					time.Sleep(clockCheck + time.Minute)
					if err := server.connects(k); err != nil {
						t.Fatalf("%s after the correction: %v", time.Since(corrected), err)
					}
					time.Sleep(day)
				}
			})
		})
	}
}

func TestSecretThatCannotBeReadAsCAIsReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		secret := &memorySecret{data: map[string][]byte{secretCA: []byte("no"), secretKey: []byte("no")}}
		k, server, stop := issue(t, secret, time.Hour, time.Second)
		defer stop()
		time.Sleep(time.Minute)
		if err := server.connects(k); err != nil {
			t.Fatal(err)
		}
		if _, err := readAuthority(secret.data[secretCA], secret.data[secretKey]); err != nil {
			t.Errorf("the stored pair: %v", err)
		}
	})
}

func TestCAOfALongerLifetimeIsReplacedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		secret := &memorySecret{}
		_, _, stop := issue(t, secret, 1000*time.Hour, time.Second)
		time.Sleep(time.Minute)
		stop()
		k, _, stop := issue(t, secret, time.Hour, time.Second)
		defer stop()
		time.Sleep(time.Minute)
		certificate, err := k.Certificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		if left := time.Until(certificate.Leaf.NotAfter); left > time.Hour {
			t.Errorf("the certificate in use is valid for %s", left)
		}
	})
}

// writePair writes the files of a new pair of ca to dir.
func writePair(t *testing.T, dir string, ca *authority) Files {
	t.Helper()
	pair, err := ca.pair([]string{"gate.ns.svc"})
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(pair.Certificate.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	files := Files{filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), filepath.Join(dir, "ca.crt")}
	for path, text := range map[string][]byte{
		files.Certificate: pemOf("CERTIFICATE", pair.Certificate.Certificate[0]), files.Key: pemOf("PRIVATE KEY", key), files.CA: ca.text,
	} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

func TestGivenFilesAreReadAgainWhenTheyChange(t *testing.T) {
	t.Parallel()
	first, err := newAuthority(time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	second, err := newAuthority(time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files := writePair(t, dir, first)
	pair, err := files.Load()
	if err != nil {
		t.Fatal(err)
	}
	changed := make(chan struct{}, 10)
	k := NewRotator(time.Millisecond, time.Now, func() { changed <- struct{}{} }, func(Pair) { changed <- struct{}{} })
	k.Offer(pair)
	<-changed
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { k.Run(ctx) })
	running.Go(func() { files.Watch(ctx, k, pair, func(error) {}) })
	writePair(t, dir, second)
	await(t, changed) // wait until the bundle also contains the CA of the new pair
	if err := handshakes(k, first.text, "gate.ns.svc", time.Now()); err != nil {
		t.Errorf("before the API server trusts the new CA: %v", err)
	}
	k.InForce(k.Bundle())
	await(t, changed)
	if err := handshakes(k, second.text, "gate.ns.svc", time.Now()); err != nil {
		t.Errorf("after the API server trusts the new CA: %v", err)
	}
}

func TestAPairWithTheCAOfAnotherDoesNotReplaceAPair(t *testing.T) {
	t.Parallel()
	first, err1 := newAuthority(time.Now(), time.Hour)
	second, err2 := newAuthority(time.Now(), time.Hour)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	files := writePair(t, t.TempDir(), first)
	load := func(ca ...[]byte) Pair {
		t.Helper()
		p, err := files.Load()
		if err == nil && len(ca) > 0 {
			p.CA = slices.Concat(ca...)
		}
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	signed, proxied, both := load(), load(second.text), load(second.text, first.text)
	if err := files.checkSigned(proxied, signed); err == nil || !strings.Contains(err.Error(), files.Certificate+": the CA in "+files.CA+" has not signed it") {
		t.Errorf("the CA of another is accepted: %v", err)
	}
	for name, err := range map[string]error{
		"the old and the new CA":          files.checkSigned(both, signed),
		"a signed pair behind another":    files.checkSigned(signed, proxied),
		"the CA of a proxy, as before it": files.checkSigned(proxied, proxied),
		"the same pair":                   files.checkSigned(signed, signed),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBadFilesAreErrorsThatNameThem(t *testing.T) {
	t.Parallel()
	if _, err := (Files{"/none/tls.crt", "/none/tls.key", "/none/ca.crt"}).Load(); err == nil {
		t.Error("a missing pair was read")
	}
	if _, err := NewClients([]string{os.Args[0]}); err == nil || !strings.Contains(err.Error(), os.Args[0]) {
		t.Errorf("a program was read as a CA: %v", err)
	}
	if clients, err := NewClients(nil); clients != nil || err != nil {
		t.Errorf("missing files were read as %v, %v", clients, err)
	}
}

func await(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(90 * time.Second):
		t.Fatal("nothing happened for 90 s")
	}
}

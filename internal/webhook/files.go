package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Files are the PEM files of a pair that other tools maintain.
type Files struct{ Certificate, Key, CA string }

// Load reads the pair. It returns an error if the CA has not signed the certificate, as while another program replaces one file
// after the other: the API server would reject the certificate.
func (f Files) Load() (Pair, error) {
	certificate, err := tls.LoadX509KeyPair(f.Certificate, f.Key)
	if err != nil {
		return Pair{}, fmt.Errorf("certificate %s with key %s: %w", f.Certificate, f.Key, err)
	}
	ca, err := os.ReadFile(f.CA)
	if err != nil {
		return Pair{}, fmt.Errorf("CA of certificate %s: %w", f.Certificate, err)
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return Pair{}, fmt.Errorf("CA of certificate %s: %s holds no certificate", f.Certificate, f.CA)
	}
	for _, der := range certificate.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(c)
		}
	}
	_, err = certificate.Leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	if errors.As(err, new(x509.UnknownAuthorityError)) { // an expired certificate is a problem that status shows
		return Pair{}, fmt.Errorf("certificate %s: the CA in %s has not signed it: %w", f.Certificate, f.CA, err)
	}
	return Pair{Certificate: certificate, CA: ca, Expires: certificate.Leaf.NotAfter}, nil
}

// quiet is the time without changes before files are read, because a pair consists of several
// files.
const quiet = 100 * time.Millisecond

// Watch offers the pair to the rotator whenever it differs from before, until ctx ends. It passes
// errors to failed; then the previous pair stays in use.
func (f Files) Watch(ctx context.Context, rotator *Rotator, before Pair, failed func(error)) error {
	return follow(ctx, []string{f.Certificate, f.Key, f.CA}, failed, func() {
		pair, err := f.Load()
		if err != nil {
			failed(err)
			return
		}
		if !pair.equal(before) {
			rotator.Offer(pair)
			before = pair
		}
	})
}

// follow calls read at the start and whenever files may have changed, until ctx ends.
func follow(ctx context.Context, files []string, failed func(error), read func()) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch %s: %w", files[0], err)
	}
	defer func() { _ = watcher.Close() }() // its error does not matter
	// follow watches the directories. When a mounted Secret changes, the kubelet does not write to
	// the files, but replaces the symbolic link ..data in their directory.
	for _, file := range files {
		if err := watcher.Add(filepath.Dir(file)); err != nil {
			return fmt.Errorf("watch %s: %w", file, err)
		}
	}
	settled := time.NewTimer(0) // a file may have changed before the watch started
	defer settled.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-watcher.Errors:
			failed(fmt.Errorf("watch %s: %w", files[0], err))
			settled.Reset(quiet)
		case <-watcher.Events:
			settled.Reset(quiet)
		case <-settled.C:
			read()
		}
	}
}

func (p Pair) equal(other Pair) bool {
	if !bytes.Equal(p.CA, other.CA) || len(p.Certificate.Certificate) != len(other.Certificate.Certificate) {
		return false
	}
	for i, der := range p.Certificate.Certificate {
		if !bytes.Equal(der, other.Certificate.Certificate[i]) {
			return false
		}
	}
	return true
}

package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Files are the PEM files of a pair that other tools maintain.
type Files struct{ Certificate, Key, CA string }

// Load reads the pair.
func (f Files) Load() (Pair, error) {
	certificate, err := tls.LoadX509KeyPair(f.Certificate, f.Key)
	if err != nil {
		return Pair{}, fmt.Errorf("certificate %s with key %s: %w", f.Certificate, f.Key, err)
	}
	ca, err := os.ReadFile(f.CA)
	if err != nil {
		return Pair{}, fmt.Errorf("CA of certificate %s: %w", f.Certificate, err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(ca) {
		return Pair{}, fmt.Errorf("CA of certificate %s: %s holds no certificate", f.Certificate, f.CA)
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
	// It watches the directories, because the files of a mounted Secret are links that are replaced
	// together.
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

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

// Files are where a pair is kept by others, all PEM.
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

// quiet is how long files must not have changed to be read: a pair is several files.
const quiet = 100 * time.Millisecond

// Watch offers the pair to keyring whenever it is another than before, until ctx ends. What cannot be used is told to
// failed; what was read before stays in use.
func (f Files) Watch(ctx context.Context, keyring *Keyring, before Pair, failed func(error)) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch certificate %s: %w", f.Certificate, err)
	}
	defer func() { _ = watcher.Close() }() // nothing is lost with it
	// The directories: files of a mounted Secret are links that are replaced as one.
	for _, file := range []string{f.Certificate, f.Key, f.CA} {
		if err := watcher.Add(filepath.Dir(file)); err != nil {
			return fmt.Errorf("watch certificate %s: %w", file, err)
		}
	}
	settled := time.NewTimer(0) // something may have changed before the watch began
	defer settled.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-watcher.Errors:
			failed(fmt.Errorf("watch certificate %s: %w", f.Certificate, err))
			settled.Reset(quiet)
		case <-watcher.Events:
			settled.Reset(quiet)
		case <-settled.C:
			pair, err := f.Load()
			if err != nil {
				failed(err)
				continue
			}
			if !pair.equal(before) {
				keyring.Offer(pair)
				before = pair
			}
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

// ClientCAs reads the CAs of those who may connect; nil of no files.
func ClientCAs(files []string) (*x509.CertPool, error) {
	if len(files) == 0 {
		return nil, nil
	}
	pool := x509.NewCertPool()
	var errs []error
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil && !pool.AppendCertsFromPEM(text) {
			err = fmt.Errorf("%s holds no certificate", file)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("CA of clients: %w", err)
	}
	return pool, nil
}

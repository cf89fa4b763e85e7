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

// Files are the paths of the PEM files of a pair. Other programs write and replace these files.
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

// quiet is the time without changes after which changed files are read again. A pair consists of
// several files, which another program may replace one after the other.
const quiet = 100 * time.Millisecond

// checkSigned returns an error if the CA of p has not signed the certificate of p, because the API
// server would reject this certificate. The argument before is the previous pair. If the CA of this
// pair has not signed the certificate of this pair either, checkSigned returns nil. In this case,
// the files may have the CA of a proxy in front of the operator, and this CA has not signed the
// certificate of the operator.
func (f Files) checkSigned(p, before Pair) error {
	if err := p.signed(); err != nil && before.signed() == nil {
		return fmt.Errorf("certificate %s: the CA in %s has not signed it: %w; the previous certificate stays in use until both match", f.Certificate, f.CA, err)
	}
	return nil
}

// signed returns an error if the CA of p has not signed the certificate of p. It ignores other
// defects, such as an expired certificate.
func (p Pair) signed() error {
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	roots.AppendCertsFromPEM(p.CA)
	for _, der := range p.Certificate.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(c)
		}
	}
	_, err := p.Certificate.Leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	if errors.As(err, new(x509.UnknownAuthorityError)) {
		return err
	}
	return nil
}

// Watch reads the files at the start, after each change, and at the interval readAgain, until ctx ends.
// If the pair in the files differs from the previous pair, Watch offers the new pair to the rotator. At
// the start, the previous pair is the argument before. If the files cannot be read or do not match, the
// previous pair stays in use, and Watch calls failed(err). Such errors are possible while another program
// replaces one file after the other.
func (f Files) Watch(ctx context.Context, rotator *Rotator, before Pair, failed func(error)) {
	follow(ctx, []string{f.Certificate, f.Key, f.CA}, failed, func() {
		pair, err := f.Load()
		if err == nil {
			err = f.checkSigned(pair, before)
		}
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

// readAgain is the interval at which files are read even if no event reports a change. Without these
// reads, a renewed certificate would not be used after a failed read, or if the node allows no further
// inotify instances.
const readAgain = 5 * time.Minute

// follow calls read() at the start, after each possible change of files, and at the interval readAgain,
// until ctx ends. It calls failed(err) if it cannot watch the files, and after each error of the watch.
func follow(ctx context.Context, files []string, failed func(error), read func()) {
	var events <-chan fsnotify.Event
	var errs <-chan error
	watcher, err := watchDirs(files)
	if err == nil {
		defer func() { _ = watcher.Close() }() // an error of Close does not matter, because nothing was written
		events, errs = watcher.Events, watcher.Errors
	} else {
		failed(fmt.Errorf("watch %s: %w; changes are noticed within %s; raise fs.inotify.max_user_instances on the node if it is exhausted", files[0], err, readAgain))
	}
	next := time.NewTimer(0) // a file may have changed before the watch started
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case err := <-errs:
			failed(fmt.Errorf("watch %s: %w", files[0], err))
			next.Reset(quiet)
		case <-events:
			next.Reset(quiet)
		case <-next.C:
			read()
			next.Reset(readAgain)
		}
	}
}

// watchDirs returns a watcher of the directories of files. It does not watch the files themselves: when a
// mounted Secret changes, the kubelet does not write to the files. It replaces the symbolic link "..data"
// in their directory.
func watchDirs(files []string) (*fsnotify.Watcher, error) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if err := watcher.Add(filepath.Dir(file)); err != nil {
			return nil, errors.Join(err, watcher.Close())
		}
	}
	return watcher, nil
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

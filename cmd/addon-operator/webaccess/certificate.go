package webaccess

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"time"
)

// A Certificate is a certificate in files. Other programs can replace the files while the operator runs.
type Certificate struct {
	cert, key string

	mu      sync.Mutex
	loaded  *tls.Certificate
	changed time.Time // modification time of the newer file when the certificate was loaded
}

// LoadCertificate reads a certificate and its private key from files.
func LoadCertificate(cert, key string) (*Certificate, error) {
	c := &Certificate{cert: cert, key: key}
	_, err := c.current()
	return c, err
}

// Config returns the TLS settings of a server. Each handshake uses the current content of the files. If the files
// cannot be read, the handshake uses the certificate that was read last.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			loaded, err := c.current()
			if loaded != nil {
				err = nil
			}
			return loaded, err
		},
	}
}

// current returns the certificate. current reads the files again if they have changed. If reading fails, current
// returns an error, and the certificate that was read last.
func (c *Certificate) current() (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := time.Time{}
	for _, file := range []string{c.cert, c.key} {
		info, err := os.Stat(file)
		if err != nil {
			return c.loaded, fmt.Errorf("certificate of the web page: %w", err)
		}
		if info.ModTime().After(changed) {
			changed = info.ModTime()
		}
	}
	if c.loaded != nil && changed.Equal(c.changed) {
		return c.loaded, nil
	}
	loaded, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return c.loaded, fmt.Errorf("certificate of the web page, %s with key %s: %w", c.cert, c.key, err)
	}
	c.loaded, c.changed = &loaded, changed
	return c.loaded, nil
}

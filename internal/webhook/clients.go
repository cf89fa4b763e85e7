package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
)

// Clients verifies client certificates. A client may connect only if a CA in the given files has
// signed its certificate. Clients is safe for concurrent use. Create one with [NewClients].
type Clients struct {
	files []string
	cas   atomic.Pointer[x509.CertPool]
}

// NewClients reads the CAs of clients from PEM files. Without files, it returns nil, which means
// that all clients may connect.
func NewClients(files []string) (*Clients, error) {
	if len(files) == 0 {
		return nil, nil
	}
	c := &Clients{files: files}
	return c, c.read()
}

// read replaces the CAs with the CAs in the files. If read returns an error, the previous CAs stay
// in use.
func (c *Clients) read() error {
	cas := x509.NewCertPool()
	var errs []error
	for _, file := range c.files {
		text, err := os.ReadFile(file)
		if err == nil && !cas.AppendCertsFromPEM(text) {
			err = fmt.Errorf("%s holds no certificate", file)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("CA of clients: %w", err)
	}
	c.cas.Store(cas)
	return nil
}

// Watch reads the files at the start, after each change, and at the interval readAgain, until ctx ends.
// If the files cannot be read, the previous CAs stay in use, and Watch calls failed(err).
func (c *Clients) Watch(ctx context.Context, failed func(error)) {
	follow(ctx, c.files, failed, func() {
		if err := c.read(); err != nil {
			failed(err)
		}
	})
}

// require sets the fields of a server's TLS configuration so that the server accepts only clients
// that c accepts. The server verifies each connection with the current CAs, even if the connection
// resumes an earlier TLS session.
func (c *Clients) require(config *tls.Config) {
	config.ClientAuth = tls.RequireAnyClientCert
	config.VerifyConnection = func(state tls.ConnectionState) error {
		options := x509.VerifyOptions{
			Roots: c.cas.Load(), Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}
		for _, certificate := range state.PeerCertificates[1:] {
			options.Intermediates.AddCert(certificate)
		}
		_, err := state.PeerCertificates[0].Verify(options)
		return err
	}
}

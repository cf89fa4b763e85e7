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

// Clients are those who may connect: who has a certificate of one of the CAs in some files. They may be asked from many
// goroutines at once. Make them with [NewClients].
type Clients struct {
	files []string
	cas   atomic.Pointer[x509.CertPool]
}

// NewClients reads the CAs of clients out of files, all PEM. It returns nil where there are no files: then anybody may
// connect.
func NewClients(files []string) (*Clients, error) {
	if len(files) == 0 {
		return nil, nil
	}
	c := &Clients{files: files}
	return c, c.read()
}

// read takes over the CAs in the files, if all of them can be.
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

// Watch reads the files whenever they change, until ctx ends. What cannot be used is told to failed; what was read before
// stays in use.
func (c *Clients) Watch(ctx context.Context, failed func(error)) error {
	return follow(ctx, c.files, failed, func() {
		if err := c.read(); err != nil {
			failed(err)
		}
	})
}

// require has config serve them only. Each connection is held against the CAs of its own time, one that resumes an earlier
// session too.
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

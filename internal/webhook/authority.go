package webhook

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

// authority is a CA and its key.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	// text and keyText are the certificate and the key, encoded as PEM.
	text, keyText []byte
}

// newAuthority creates a CA that is valid from clockSkew before now until lifetime after now.
func newAuthority(now time.Time, lifetime time.Duration) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: "addon-operator webhooks " + now.UTC().Format(time.RFC3339)},
		NotBefore:    now.Add(-clockSkew), NotAfter: now.Add(lifetime),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return readAuthority(
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}),
	)
}

// clockSkew is the tolerated difference between the clocks of the API server and the operator.
const clockSkew = 5 * time.Minute

func newSerial() (*big.Int, error) {
	return rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
}

// readAuthority parses a certificate and a key in the format that newAuthority writes.
func readAuthority(text, keyText []byte) (*authority, error) {
	pair, err := tls.X509KeyPair(text, keyText)
	if err != nil {
		return nil, err
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok || pair.Leaf == nil || !pair.Leaf.IsCA {
		return nil, errors.New("not a CA with an elliptic-curve key")
	}
	return &authority{certificate: pair.Leaf, key: key, text: text, keyText: keyText}, nil
}

// expires returns the time at which the CA expires.
func (a *authority) expires() time.Time { return a.certificate.NotAfter }

// due returns the time at which the next CA must be created: half of lifetime before the CA expires. If the CA is still
// valid for longer than lifetime, due returns now. Either the CA was created with a longer lifetime, or the clock was
// wrong at that time, so that the CA may not be valid yet.
func (a *authority) due(now time.Time, lifetime time.Duration) time.Time {
	if a.expires().Sub(now) > lifetime {
		return now
	}
	return a.expires().Add(-lifetime / 2)
}

// pair creates a certificate for hosts, which are names and IP addresses. The certificate is valid
// for as long as the CA a.
func (a *authority) pair(hosts []string) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	serial, err := newSerial()
	if err != nil {
		return Pair{}, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "addon-operator webhooks"},
		NotBefore: a.certificate.NotBefore, NotAfter: a.certificate.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("make a certificate for %q: %w", hosts, err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return Pair{}, err
	}
	return Pair{
		Certificate: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf},
		CA:          a.text, Expires: a.expires(),
	}, nil
}

// An Issuer creates CAs, and serving certificates that these CAs sign. It stores the CAs in a
// Secret, so that the next process uses the same CAs, which clients already trust. It replaces each
// CA after half of its lifetime. The fields must be set before the call of NewRotator.
type Issuer struct {
	Secret Secret
	// Lifetime is the time for which a new CA and its certificates are valid.
	Lifetime time.Duration
	// Hosts are the host names and IP addresses of the server, which its certificates contain.
	Hosts []string
	Clock func() time.Time
	// Failed is called with each error. The issuer retries the failed step. If a stored CA cannot be used, the issuer
	// replaces it.
	Failed func(error)
	// Made is called with the expiry of each new CA.
	Made func(expires time.Time)

	used chan struct{}
}

// A Secret stores data in the cluster. [ClusterSecret] implements it.
type Secret interface {
	// Read returns the stored data, or nil if the Secret does not exist.
	Read(ctx context.Context) (map[string][]byte, error)
	// Write replaces the stored data.
	Write(ctx context.Context, data map[string][]byte) error
}

// The keys of the Secret: certificate and key of the CA in use, and those of the next CA if the
// Secret has one.
const (
	secretCA, secretKey         = "ca.crt", "ca.key"
	secretNextCA, secretNextKey = "next-ca.crt", "next-ca.key"
)

// NewRotator returns a rotator for the certificates of the issuer. The rotator calls changed() after each call of
// Offer, because Offer can change the bundle of CAs.
func (i *Issuer) NewRotator(changed func()) *Rotator {
	i.used = make(chan struct{}, 1)
	// The settle time is short compared with the lifetime, so that the rotator uses a new CA long
	// before the previous CA expires.
	settle := min(i.Lifetime/10, 30*time.Second)
	return NewRotator(settle, i.Clock, changed, func(Pair) { signal(i.used) })
}

// Run passes each new certificate with its CA to rotator.Offer, until ctx ends. The rotator must have
// been created by i.NewRotator.
func (i *Issuer) Run(ctx context.Context, rotator *Rotator) {
	var ca, next *authority
	if i.repeat(ctx, func() (err error) { ca, next, err = i.begin(ctx); return err }) != nil {
		return
	}
	if !i.offer(ctx, rotator, ca) || next != nil && !i.offer(ctx, rotator, next) {
		return
	}
	for {
		if next == nil {
			if !i.awaitDue(ctx, ca) {
				return
			}
			if i.repeat(ctx, func() (err error) { next, err = i.renew(ctx, ca); return err }) != nil || !i.offer(ctx, rotator, next) {
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-i.used:
		}
		ca, next = next, nil
		if i.repeat(ctx, func() error { return i.write(ctx, ca, nil) }) != nil {
			return
		}
	}
}

// clockCheck is the maximum delay after which due times are computed again. The clock may have been corrected
// meanwhile, even by months, as on a node that starts without a battery-backed clock.
const clockCheck = time.Hour

// awaitDue waits until the successor of ca must be created, and returns true. If ctx ends first, it returns false.
func (i *Issuer) awaitDue(ctx context.Context, ca *authority) bool {
	for {
		now := i.Clock()
		wait := ca.due(now, i.Lifetime).Sub(now)
		if wait <= 0 {
			return ctx.Err() == nil
		}
		if !pause(ctx, min(wait, clockCheck)) {
			return false
		}
	}
}

// offer creates a certificate for Hosts, signed by ca, passes it to rotator, and returns true. If ctx ends first, it
// returns false.
func (i *Issuer) offer(ctx context.Context, rotator *Rotator, ca *authority) bool {
	return i.repeat(ctx, func() error {
		pair, err := ca.pair(i.Hosts)
		if err == nil {
			rotator.Offer(pair)
		}
		return err
	}) == nil
}

// begin returns the stored CAs that are still valid. If there are none, it creates a CA and stores
// it. next is nil if only one CA is valid.
func (i *Issuer) begin(ctx context.Context) (ca, next *authority, err error) {
	data, err := i.Secret.Read(ctx)
	if err != nil {
		return nil, nil, err
	}
	now := i.Clock()
	ca, next = i.kept(data, secretCA, secretKey, now), i.kept(data, secretNextCA, secretNextKey, now)
	if ca == nil {
		ca, next = next, nil
	}
	if ca != nil {
		return ca, next, nil
	}
	if ca, err = i.create(now); err != nil {
		return nil, nil, err
	}
	return ca, nil, i.write(ctx, ca, nil)
}

// kept returns the CA with the certificate data[name] and the private key data[key]. It returns nil
// if data has no such CA, or if the CA is invalid or has expired.
func (i *Issuer) kept(data map[string][]byte, name, key string, now time.Time) *authority {
	if len(data[name]) == 0 {
		return nil
	}
	ca, err := readAuthority(data[name], data[key])
	if err != nil {
		i.Failed(fmt.Errorf("%s in the Secret cannot be used and is replaced: %w", name, err))
		return nil
	}
	if !now.Before(ca.expires()) {
		return nil
	}
	return ca
}

func (i *Issuer) create(now time.Time) (*authority, error) {
	ca, err := newAuthority(now, i.Lifetime)
	if err == nil {
		i.Made(ca.expires())
	}
	return ca, err
}

// renew creates the successor of the CA ca, and stores both CAs.
func (i *Issuer) renew(ctx context.Context, ca *authority) (*authority, error) {
	next, err := i.create(i.Clock())
	if err != nil {
		return nil, err
	}
	return next, i.write(ctx, ca, next)
}

func (i *Issuer) write(ctx context.Context, ca, next *authority) error {
	data := map[string][]byte{secretCA: ca.text, secretKey: ca.keyText}
	if next != nil {
		data[secretNextCA], data[secretNextKey] = next.text, next.keyText
	}
	return i.Secret.Write(ctx, data)
}

// repeat calls what() until the call succeeds. If ctx ends first, repeat returns the error of ctx.
func (i *Issuer) repeat(ctx context.Context, what func() error) error {
	again := newRetry()
	for {
		err := what()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		i.Failed(fmt.Errorf("certificates of the webhooks: %w", err))
		if !pause(ctx, again.NextBackOff()) {
			return ctx.Err()
		}
	}
}

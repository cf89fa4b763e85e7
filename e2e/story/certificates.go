package story

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// writeCertificate implements the command "certificate DIR SINCE LEFT". It writes a self-signed webhook certificate
// for 127.0.0.1 to the files in DIR that a mounted Secret has: ca.crt, tls.crt and tls.key. The certificate has been
// valid for the duration SINCE, and is still valid for the duration LEFT.
func writeCertificate(w *environment, _ *testscript.TestScript, args []string) error {
	if len(args) != 3 {
		return usage("certificate DIR SINCE LEFT")
	}
	since, err1 := time.ParseDuration(args[1])
	left, err2 := time.ParseDuration(args[2])
	key, err3 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-since), NotAfter: time.Now().Add(left),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	text, err1 := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	keyText, err2 := x509.MarshalECPrivateKey(key)
	dir := w.path(args[0])
	if err := errors.Join(err1, err2, os.MkdirAll(dir, 0o755)); err != nil {
		return err
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: text})
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "ca.crt"), certificate, 0o600),
		os.WriteFile(filepath.Join(dir, "tls.crt"), certificate, 0o600),
		os.WriteFile(filepath.Join(dir, "tls.key"), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyText}), 0o600),
	)
}

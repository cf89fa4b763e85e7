package settings

import "net"

// Web are the settings of the web page.
type Web struct {
	// Address is HOST:PORT; empty disables the web page.
	Address string
	// Actions allows actions on the web page, such as retry and pause.
	Actions bool
	// CertFile and KeyFile are the files of the TLS certificate and its key. If they are set, requests need a token, and the
	// RBAC rules of the cluster decide what a person may see and do.
	CertFile, KeyFile string
}

// declare declares the flags of s.
func (s *Web) declare(d *declarations) {
	d.text(&s.Address, "web-listen-address", "127.0.0.1:9116", "address, HOST:PORT, to listen on for the web page; off if the flag is empty; one that is not a loopback address needs --web-tls-cert-file", "ADDON_OPERATOR_WEB_LISTEN_ADDRESS")
	d.toggle(&s.Actions, "web-actions", "allow actions on the web page, such as retry and pause; without this flag, the page is read-only", "ADDON_OPERATOR_WEB_ACTIONS")
	d.text(&s.CertFile, "web-tls-cert-file", "", "file with the certificate of the web page; with it, requests need a token, and RBAC rules decide who sees and does what", "ADDON_OPERATOR_WEB_TLS_CERT_FILE")
	d.text(&s.KeyFile, "web-tls-private-key-file", "", "file with the private key of --web-tls-cert-file", "ADDON_OPERATOR_WEB_TLS_PRIVATE_KEY_FILE")
}

// check returns an error for the first invalid setting.
func (s *Web) check() error {
	if s.Address == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(s.Address)
	if err != nil {
		return Invalid("--web-listen-address must be HOST:PORT (got %q): %w", s.Address, err)
	}
	if (s.CertFile == "") != (s.KeyFile == "") {
		return Invalid("--web-tls-cert-file and --web-tls-private-key-file must be set together")
	}
	if !IsLoopback(host) && s.CertFile == "" {
		return Invalid("--web-listen-address must be a loopback address, which kubectl port-forward reaches (got %q); to serve other machines, set --web-tls-cert-file and --web-tls-private-key-file", s.Address)
	}
	return nil
}

// Authenticated reports whether requests for the web page need a token.
func (s *Web) Authenticated() bool { return s.CertFile != "" }

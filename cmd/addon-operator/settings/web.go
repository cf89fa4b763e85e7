package settings

import "net"

// Web are the settings of the web page.
type Web struct {
	// Address is HOST:PORT, empty for no page.
	Address string
	// Actions allows the buttons that change something.
	Actions bool
}

// declare declares the flags of s.
func (s *Web) declare(d *declarations) {
	d.text(&s.Address, "web-listen-address", "127.0.0.1:9116", "loopback address, HOST:PORT, to listen on for the web page; off if empty", "ADDON_OPERATOR_WEB_LISTEN_ADDRESS")
	d.toggle(&s.Actions, "web-actions", "allow actions on the web page, such as retry and pause; it only shows otherwise", "ADDON_OPERATOR_WEB_ACTIONS")
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
	if !IsLoopback(host) {
		return Invalid("--web-listen-address must be a loopback address, which kubectl port-forward reaches (got %q)", s.Address)
	}
	return nil
}

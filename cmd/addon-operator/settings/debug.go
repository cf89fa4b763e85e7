package settings

import (
	"fmt"
	"net"
)

// IsLoopback reports whether host is localhost or a loopback address, which other machines cannot reach.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// DebugPort returns the address for the debug pages; empty if they are disabled. If IsLoopback returns
// false for the host in the settings, DebugPort returns the address 127.0.0.1 with the same port, and a
// warning.
func (s *Settings) DebugPort() (address, warning string, err error) {
	if s.DebugAddress == "" {
		return "", "", nil
	}
	host, port, err := net.SplitHostPort(s.DebugAddress)
	if err != nil {
		return "", "", Invalid("--debug-http-addr must be HOST:PORT (got %q): %w", s.DebugAddress, err)
	}
	if IsLoopback(host) {
		return s.DebugAddress, "", nil
	}
	address = net.JoinHostPort("127.0.0.1", port)
	return address, fmt.Sprintf("--debug-http-addr is %s; the debug pages are served on %s only, where kubectl port-forward reaches them",
		s.DebugAddress, address), nil
}

package source

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
)

// metadataServices are addresses at which cloud providers give the credentials of a machine to each of its processes.
// Link-local addresses, which serve the same purpose, are not in the list.
var metadataServices = []netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("168.63.129.16"),
}

// A trust is the origin of the host of a request. It determines which addresses are allowed. The zero value means
// that the host is in a URL of a spec.
type trust int

const (
	// redirected means that another server chose the host, by a redirect.
	redirected trust = iota + 1
	// proxied means that the host is the proxy set in the environment.
	proxied
)

type trustKey struct{}

// checkAddress rejects connections to addresses at which no repository can be. It is called with the address after
// the DNS lookup, so a host name cannot bypass it.
func checkAddress(ctx context.Context, _, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil //nolint:nilerr // not a network address
	}
	ip, of := at.Addr().Unmap().WithZone(""), ctx.Value(trustKey{})
	switch {
	case of == proxied:
		return nil
	case ip.IsLinkLocalUnicast(), ip.IsMulticast(), slices.Contains(metadataServices, ip):
		return failed("connections to %s are refused, as it is an address of the machine or of its cloud provider", ip)
	case of == redirected && (ip.IsLoopback() || ip.IsUnspecified()):
		return failed("redirect to %s is refused, as it is an address of the machine", ip)
	}
	return nil
}

// trusting returns the context for a request to target, with its trust. first is the URL of the request before
// redirects.
func (c *client) trusting(ctx context.Context, request *http.Request, first, target *url.URL) context.Context {
	if c.transport.Proxy != nil {
		if proxy, err := c.transport.Proxy(request); err == nil && proxy != nil {
			return context.WithValue(ctx, trustKey{}, proxied)
		}
	}
	if !c.develop && target.Host != first.Host && !isLocal(first.Hostname()) {
		return context.WithValue(ctx, trustKey{}, redirected)
	}
	return ctx
}

// isLocal reports whether host is a name or an address of this machine.
func isLocal(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback() || host == "localhost" || strings.HasSuffix(host, ".localhost")
}

func newDialer(limits Limits) *net.Dialer {
	return &net.Dialer{Timeout: min(connectWithin, limits.Request), ControlContext: checkAddress}
}

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
// Most providers use link-local addresses for this. They are not in the list, because checkAddress rejects all
// link-local addresses.
var metadataServices = []netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("168.63.129.16"),
}

// A trust says who has chosen the host of a request. It determines to which addresses the request may connect. The
// zero value means that the host is in the repository URL of a configuration.
type trust int

const (
	// redirected means that another server has chosen the host with a redirect. It is used neither in develop mode nor
	// if the first host is the local machine.
	redirected trust = iota + 1
	// proxied means that the request goes to the HTTP proxy that the operator's environment variables name.
	proxied
)

type trustKey struct{}

// checkAddress returns an error if a request must not connect to address. It is called after the DNS lookup, with an
// IP address and port, so a host name cannot bypass it.
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
		return failed("connections to %s are refused, because it is an address of the machine or of its cloud provider", ip)
	case of == redirected && (ip.IsLoopback() || ip.IsUnspecified()):
		return failed("redirect to %s is refused, as it is an address of the machine", ip)
	}
	return nil
}

// trusting returns a context with the trust of a request to target. The argument first is the URL of the first request,
// before any redirects.
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

// isLocal reports whether host is a loopback address, localhost, or a name that ends in .localhost.
func isLocal(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback() || host == "localhost" || strings.HasSuffix(host, ".localhost")
}

func newDialer(limits Limits) *net.Dialer {
	return &net.Dialer{Timeout: min(connectWithin, limits.Request), ControlContext: checkAddress}
}

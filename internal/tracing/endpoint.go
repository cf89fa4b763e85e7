package tracing

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"

	"addon-operator/internal/redact"
)

// The protocols with which spans are sent to a collector.
const (
	GRPC = "grpc"
	HTTP = "http/protobuf"
)

// standardEndpoints are the standard environment variables with the endpoint of the collector. The first variable
// that is set is used.
var standardEndpoints = []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"}

// A Collector has the address of the collector to which spans are sent, and the credentials for it.
type Collector struct {
	// Endpoint is HOST:PORT, which means a connection without TLS, or a URL with http or https. If Endpoint is empty,
	// the endpoint in the standard environment variables OTEL_EXPORTER_OTLP_… is used. If they are not set either, the
	// default endpoint of the OpenTelemetry library is used.
	Endpoint string
	// Protocol is GRPC or HTTP. If Protocol is empty, GRPC is used if Endpoint is set, and HTTP otherwise.
	Protocol string
	// Token is the bearer token for the collector; empty if there is none.
	Token string
	// Disabled disables tracing.
	Disabled bool
}

// Enabled reports whether spans are sent to a collector. Tracing is enabled if Endpoint or a standard variable names an
// endpoint, or if OTEL_TRACES_EXPORTER is otlp. Disabled, OTEL_SDK_DISABLED=true and OTEL_TRACES_EXPORTER=none disable
// it.
func (c Collector) Enabled() bool {
	exporter := strings.TrimSpace(os.Getenv("OTEL_TRACES_EXPORTER"))
	if c.Disabled || strings.EqualFold(strings.TrimSpace(os.Getenv("OTEL_SDK_DISABLED")), "true") || exporter == "none" {
		return false
	}
	_, endpoint := standardEndpoint()
	return c.Endpoint != "" || endpoint != "" || exporter == "otlp"
}

// Check returns an error if the collector is enabled and its endpoint or protocol is invalid. The error names the
// setting that users must correct: field("Endpoint") and field("Protocol") return the names of the settings.
func (c Collector) Check(field func(name string) string) error {
	if !c.Enabled() {
		return nil
	}
	if protocol := c.protocol(); protocol != GRPC && protocol != HTTP {
		return fmt.Errorf("%s must be %s or %s (got %q)", field("Protocol"), GRPC, HTTP, protocol)
	}
	if c.Endpoint != "" {
		if err := c.checkEndpoint(); err != nil {
			return fmt.Errorf("%s must be HOST:PORT, or a URL with http or https: %w (got %q)", field("Endpoint"), err, shown(c.Endpoint))
		}
		return nil
	}
	name, endpoint := standardEndpoint()
	if endpoint == "" {
		return nil // the OpenTelemetry library uses its default endpoint
	}
	if err := checkURL(endpoint); err != nil {
		return fmt.Errorf("variable %s must be a URL with http or https: %w (got %q)", name, err, shown(endpoint))
	}
	return nil
}

// protocol returns c.Protocol, or its default.
func (c Collector) protocol() string {
	if c.Endpoint != "" {
		return cmp.Or(c.Protocol, GRPC)
	}
	return cmp.Or(c.Protocol, HTTP)
}

// isURL reports whether Endpoint is a URL. Otherwise it is HOST:PORT.
func (c Collector) isURL() bool { return strings.Contains(c.Endpoint, "://") }

func (c Collector) checkEndpoint() error {
	if !c.isURL() {
		return checkAddress(c.Endpoint)
	}
	if err := checkURL(c.Endpoint); err != nil {
		return err
	}
	if u, err := url.Parse(c.Endpoint); err == nil && strings.Trim(u.Path, "/") != "" && c.protocol() == GRPC {
		return fmt.Errorf("a path needs the protocol %s", HTTP)
	}
	return nil
}

// standardEndpoint returns the first of the standard variables that is set: its name and the endpoint in it. The
// results are empty if no variable is set.
func standardEndpoint() (name, endpoint string) {
	for _, name := range standardEndpoints {
		if endpoint := strings.TrimSpace(os.Getenv(name)); endpoint != "" {
			return name, endpoint
		}
	}
	return "", ""
}

// standardHeaders returns the headers in the standard variables, with names in lower case. Each header must have the
// form NAME=VALUE, in which VALUE is escaped as in URLs. Other headers are left out.
func standardHeaders() map[string]string {
	headers := map[string]string{}
	text := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS"), os.Getenv("OTEL_EXPORTER_OTLP_HEADERS"))
	for entry := range strings.SplitSeq(text, ",") {
		name, value, found := strings.Cut(entry, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.ToLower(strings.TrimSpace(name)); found && err == nil && name != "" {
			headers[name] = value
		}
	}
	return headers
}

func checkAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return errors.New("the port is missing, or the address cannot be read")
	}
	if host == "" || strings.ContainsAny(host, " /@") {
		return errors.New("the host is missing or invalid")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return errors.New("the port must be a number from 1 to 65535")
	}
	return nil
}

func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return errors.New("it cannot be read")
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("the scheme must be http or https")
	case u.User != nil:
		return errors.New("it must not have credentials; give a token")
	case u.Hostname() == "":
		return errors.New("the host is missing")
	case u.RawQuery != "" || u.Fragment != "":
		return errors.New("it must not have a query or a fragment")
	}
	if port := u.Port(); port != "" {
		return checkAddress(net.JoinHostPort(u.Hostname(), port))
	}
	return nil
}

// shown returns endpoint without credentials, to quote it in an error.
func shown(endpoint string) string {
	if at := strings.LastIndexByte(endpoint, '@'); at >= 0 {
		return redact.Mark + endpoint[at:]
	}
	return redact.Text(endpoint)
}

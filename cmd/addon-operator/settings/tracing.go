package settings

import (
	"strings"

	"addon-operator/internal/tracing"
)

// TracingEndpointFlag is the name of the flag for the endpoint of the collector of traces.
const TracingEndpointFlag = "tracing-otlp-endpoint"

// Tracing are the settings of OpenTelemetry traces.
type Tracing struct {
	// Endpoint is HOST:PORT or a URL. If empty, the standard variables OTEL_EXPORTER_OTLP_… apply.
	Endpoint string
	// Protocol is grpc or http/protobuf; empty selects the default protocol.
	Protocol string
	// Token is the bearer token for the collector; empty means no token.
	Token string

	disabled bool // no traces are sent, because a standard variable is invalid
}

// declare declares the flags of s.
func (s *Tracing) declare(d *declarations) {
	d.text(&s.Endpoint, TracingEndpointFlag, "", "collector of OpenTelemetry traces: HOST:PORT without TLS, or a URL with http or https; if empty, that of OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT; by default, no traces are sent", both("TRACING_OTLP_ENDPOINT")...)
	d.text(&s.Token, "tracing-otlp-auth-token", "", "bearer token for the collector of traces; prefer a variable from a Secret, because flags are visible in the list of processes", both("TRACING_OTLP_AUTH_TOKEN")...)
	d.text(&s.Protocol, "tracing-otlp-protocol", "", "protocol of the collector of traces: grpc or http/protobuf; if empty, grpc, or http/protobuf if a standard variable names the collector", "ADDON_OPERATOR_TRACING_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
}

// Collector returns the collector of traces that the settings describe.
func (s *Tracing) Collector() tracing.Collector {
	return tracing.Collector{Endpoint: s.Endpoint, Protocol: s.Protocol, Token: s.Token, Disabled: s.disabled}
}

// checkTracing checks the settings of the collector of traces. If Endpoint is set, checkTracing
// returns an error for the first invalid setting. If the endpoint is from the standard
// OpenTelemetry variables, an invalid setting disables tracing and adds a warning, because these
// variables may be intended only for hooks.
func (s *Settings) checkTracing() error {
	flag := func(field string) string { return "--tracing-otlp-" + strings.ToLower(field) }
	err := s.Tracing.Collector().Check(flag)
	switch {
	case err == nil:
		return nil
	case s.Tracing.Endpoint != "":
		return Invalid("%w", err)
	}
	s.Tracing.disabled = true
	s.Warnings = append(s.Warnings, "no traces are sent: "+err.Error())
	return nil
}

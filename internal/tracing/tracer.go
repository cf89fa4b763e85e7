package tracing

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// scope is the name of the instrumentation scope, which each span has.
const scope = "addon-operator"

// Options configure a [Tracer].
type Options struct {
	Collector
	// Store is the id of the store. Runs of different stores have different traces, even if their numbers are equal.
	Store string
	// Process are the attributes of the process, such as service.name. The standard variables
	// OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES override them.
	Process Attributes
	// Failed is called if spans could not be sent. The OpenTelemetry library has one error handler for the whole
	// process, so only Failed of the last created tracer is called. It must not block.
	Failed func(error)
}

// Attributes are values by name. A value is a string, an int, a bool or a []string. Empty strings, empty lists, zeros
// and false are not sent.
type Attributes map[string]any

// A Tracer sends the spans of one store. It is safe for concurrent use.
type Tracer struct {
	ids      ids
	tracer   trace.Tracer
	provider *sdktrace.TracerProvider
}

// New returns a tracer. It connects to the collector in the background. The caller must stop the
// tracer.
func New(ctx context.Context, o Options) (*Tracer, error) {
	// By default, the library logs the values of variables that it cannot parse, such as headers with a token.
	otel.SetLogger(logr.Discard())
	exporter, err := newExporter(ctx, o.Collector)
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	process, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(o.Process.list()...), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("tracing: OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	if o.Failed != nil {
		otel.SetErrorHandler(otel.ErrorHandlerFunc(o.Failed))
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(process), sdktrace.WithIDGenerator(chooser{}))
	return &Tracer{ids: ids(o.Store), tracer: provider.Tracer(scope), provider: provider}, nil
}

// newExporter returns an exporter that sends spans to the collector. If the endpoint is empty in c, it is read from the
// standard variables OTEL_EXPORTER_OTLP_…. The headers in these variables are also sent.
func newExporter(ctx context.Context, c Collector) (*otlptrace.Exporter, error) {
	var headers map[string]string
	if token := strings.TrimSpace(c.Token); token != "" {
		headers = standardHeaders() // the option WithHeaders replaces the standard headers, so add them
		headers["authorization"] = "Bearer " + token
	}
	if c.protocol() == HTTP {
		var options []otlptracehttp.Option
		switch {
		case c.Endpoint == "":
		case c.isURL():
			options = append(options, otlptracehttp.WithEndpointURL(c.Endpoint))
		default:
			options = append(options, otlptracehttp.WithEndpoint(c.Endpoint), otlptracehttp.WithInsecure())
		}
		if len(headers) > 0 {
			options = append(options, otlptracehttp.WithHeaders(headers))
		}
		return otlptracehttp.New(ctx, options...)
	}
	var options []otlptracegrpc.Option
	switch {
	case c.Endpoint == "":
	case c.isURL():
		options = append(options, otlptracegrpc.WithEndpointURL(c.Endpoint))
	default:
		options = append(options, otlptracegrpc.WithEndpoint(c.Endpoint), otlptracegrpc.WithInsecure())
	}
	if len(headers) > 0 {
		options = append(options, otlptracegrpc.WithHeaders(headers))
	}
	return otlptracegrpc.New(ctx, options...)
}

// Stop sends the queued spans. If ctx ends before all spans are sent, Stop drops the remaining spans and returns an
// error.
func (t *Tracer) Stop(ctx context.Context) error {
	if err := t.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("send the last spans: %w", err)
	}
	return nil
}

// A Span is a completed run, or a completed part of a run.
type Span struct {
	Ref
	// Parent is the key of the parent span in the same run. It is empty if the parent is the span of the run, or if this
	// Span is itself the span of the run.
	Parent string
	// Only a few different names are used, so that a collector can group spans by name.
	Name         string
	Began, Ended time.Time
	Attributes   Attributes
	// Failed is true if the work of the span failed. The text of the error is in Error.
	Failed bool
	Error  string
	Links  []Link
}

// A Link connects a span with a span of another run.
type Link struct {
	To Ref
	// Why says in one word how the spans are connected.
	Why string
}

// Send adds s to the queue of spans to send. It does not block.
func (t *Tracer) Send(s Span) {
	ctx := context.Background() //nolint:forbidigo // the context holds only identifiers, and Start does not wait
	options := []trace.SpanStartOption{
		trace.WithTimestamp(s.Began), trace.WithAttributes(s.Attributes.list()...), trace.WithLinks(t.links(s.Links)...),
	}
	if s.Key != "" {
		parent := t.root(s.Run).SpanContext().WithSpanID(t.ids.span(Ref{Run: s.Run, Key: s.Parent}))
		ctx = trace.ContextWithSpanContext(ctx, parent)
	}
	_, span := t.tracer.Start(withIDs(ctx, chosen{t.ids.trace(s.Run), t.ids.span(s.Ref)}), s.Name, options...)
	if s.Failed {
		span.SetStatus(codes.Error, valid(s.Error))
	}
	span.End(trace.WithTimestamp(s.Ended))
}

// root returns a new span for run. Callers use only its span context, which says whether the run is sampled. The span
// is never ended, so it is not sent.
func (t *Tracer) root(run uint64) trace.Span {
	ctx := withIDs(context.Background(), chosen{t.ids.trace(run), t.ids.span(Ref{Run: run})}) //nolint:forbidigo // as in Send
	_, span := t.tracer.Start(ctx, "run", trace.WithNewRoot())
	return span
}

func (t *Tracer) links(links []Link) []trace.Link {
	out := make([]trace.Link, len(links))
	for i, l := range links {
		out[i] = trace.Link{
			SpanContext: trace.NewSpanContext(trace.SpanContextConfig{
				TraceID: t.ids.trace(l.To.Run), SpanID: t.ids.span(l.To), TraceFlags: t.root(l.To.Run).SpanContext().TraceFlags(),
			}),
			Attributes: Attributes{"addon_operator.link": l.Why}.list(),
		}
	}
	return out
}

// TraceParent returns the value of the header traceparent of W3C Trace Context for the span r.
func (t *Tracer) TraceParent(r Ref) string {
	return fmt.Sprintf("00-%s-%s-%s", t.ids.trace(r.Run), t.ids.span(r), t.root(r.Run).SpanContext().TraceFlags())
}

// TraceID returns the identifier of the trace of run. If the run is not sampled, it returns "".
func (t *Tracer) TraceID(run uint64) string {
	if !t.root(run).SpanContext().IsSampled() {
		return ""
	}
	return t.ids.trace(run).String()
}

// list returns the attributes for the OpenTelemetry library, without empty values.
func (a Attributes) list() []attribute.KeyValue {
	out := make([]attribute.KeyValue, 0, len(a))
	for name, value := range a {
		switch value := value.(type) {
		case string:
			if value != "" {
				out = append(out, attribute.String(name, valid(value)))
			}
		case int:
			if value != 0 {
				out = append(out, attribute.Int(name, value))
			}
		case bool:
			if value {
				out = append(out, attribute.Bool(name, value))
			}
		case []string:
			if len(value) > 0 {
				out = append(out, attribute.StringSlice(name, value)) // words of the graph, which are valid UTF-8
			}
		}
	}
	return out
}

// valid returns text with invalid UTF-8 replaced by "?". A collector rejects a whole request with many spans if one
// text in it is not valid UTF-8.
func valid(text string) string { return strings.ToValidUTF8(text, "?") }

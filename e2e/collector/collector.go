// Package collector is a collector of OpenTelemetry traces for tests. It receives OTLP over gRPC and over
// HTTP, and keeps the spans in memory.
package collector

import (
	"context"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// A Span is a received span.
type Span struct {
	Trace, ID string
	// Parent is empty for the first span of a trace.
	Parent string
	Name   string
	// Attributes has the attributes of the span. Process has the attributes of the resource of the span, which is the
	// process that sent the span. If the value of an attribute is a list, the elements of the list are joined by
	// commas. A value that is not a string, an integer, a boolean or a list is replaced by an empty text.
	Attributes, Process map[string]string
	// Failed is set if the status of the span is Error. The field Error has the text of that status.
	Failed bool
	Error  string
	Links  []Link
	// Nanoseconds is the duration of the span.
	Nanoseconds int64
}

// A Link is a link from a span to another span. Trace and ID are the IDs of the trace and of the span to which the link
// leads. Why is the attribute addon_operator.link of the link.
type Link struct{ Trace, ID, Why string }

// A Collector receives spans.
type Collector struct {
	// GRPC and HTTP are the addresses of the collector, as HOST:PORT.
	GRPC, HTTP string

	collectorpb.UnimplementedTraceServiceServer
	hangs chan struct{} // if not nil, requests are answered only when it is closed, at the end of the test

	mu     sync.Mutex
	spans  []Span   // guarded by mu
	tokens []string // values of the Authorization header, one for each request, guarded by mu
}

// Start starts a collector, which stops at the end of the test.
func Start(t testing.TB) *Collector {
	t.Helper()
	c := new(Collector)
	c.serve(t)
	return c
}

// StartHanging starts a collector that accepts requests, but does not answer them before the end of the test.
func StartHanging(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{hangs: make(chan struct{})}
	c.serve(t)
	t.Cleanup(func() { close(c.hangs) }) // before the servers stop
	return c
}

func (c *Collector) serve(t testing.TB) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	collectorpb.RegisterTraceServiceServer(server, c)
	go func() { _ = server.Serve(l) }() // ends when the server is stopped
	t.Cleanup(server.Stop)
	web := httptest.NewServer(http.HandlerFunc(c.serveHTTP))
	t.Cleanup(web.Close)
	c.GRPC, c.HTTP = l.Addr().String(), web.Listener.Addr().String()
}

// Export receives spans over gRPC.
func (c *Collector) Export(ctx context.Context, r *collectorpb.ExportTraceServiceRequest) (*collectorpb.ExportTraceServiceResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	c.receive(r, strings.Join(md.Get("authorization"), ","))
	return &collectorpb.ExportTraceServiceResponse{}, nil
}

func (c *Collector) serveHTTP(w http.ResponseWriter, r *http.Request) {
	var request collectorpb.ExportTraceServiceRequest
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = proto.Unmarshal(body, &request)
	}
	if err != nil || r.URL.Path != "/v1/traces" {
		http.Error(w, "no request for spans", http.StatusBadRequest)
		return
	}
	c.receive(&request, r.Header.Get("Authorization"))
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// receive stores the spans of a request. In a collector of [StartHanging], receive does not return before the end of
// the test.
func (c *Collector) receive(r *collectorpb.ExportTraceServiceRequest, token string) {
	c.mu.Lock()
	c.tokens = append(c.tokens, token)
	for _, of := range r.GetResourceSpans() {
		process := attributes(of.GetResource().GetAttributes())
		for _, scope := range of.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans = append(c.spans, span(s, process))
			}
		}
	}
	c.mu.Unlock()
	if c.hangs != nil {
		<-c.hangs
	}
}

// Spans returns the received spans.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// Tokens returns the values of the Authorization header, one for each request.
func (c *Collector) Tokens() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.tokens)
}

func span(s *tracepb.Span, process map[string]string) Span {
	out := Span{
		Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()), Parent: hex.EncodeToString(s.GetParentSpanId()),
		Name: s.GetName(), Attributes: attributes(s.GetAttributes()), Process: process,
		Failed: s.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR, Error: s.GetStatus().GetMessage(),
		Nanoseconds: int64(s.GetEndTimeUnixNano()) - int64(s.GetStartTimeUnixNano()), //nolint:gosec // no overflow, because the times are in this century
	}
	for _, l := range s.GetLinks() {
		out.Links = append(out.Links, Link{
			hex.EncodeToString(l.GetTraceId()), hex.EncodeToString(l.GetSpanId()), attributes(l.GetAttributes())["addon_operator.link"],
		})
	}
	return out
}

func attributes(list []*commonpb.KeyValue) map[string]string {
	out := map[string]string{}
	for _, a := range list {
		out[a.GetKey()] = text(a.GetValue())
	}
	return out
}

func text(v *commonpb.AnyValue) string {
	switch v := v.GetValue().(type) {
	case *commonpb.AnyValue_StringValue:
		return v.StringValue
	case *commonpb.AnyValue_ArrayValue:
		var items []string
		for _, item := range v.ArrayValue.GetValues() {
			items = append(items, text(item))
		}
		return strings.Join(items, ",")
	case *commonpb.AnyValue_IntValue:
		return strconv.FormatInt(v.IntValue, 10)
	case *commonpb.AnyValue_BoolValue:
		return strconv.FormatBool(v.BoolValue)
	default:
		return ""
	}
}

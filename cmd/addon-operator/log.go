package main

import (
	"bytes"
	"io"
	stdlog "log"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/rs/zerolog"
	"k8s.io/klog/v2"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/cmd/addon-operator/settings"
	"addon-operator/steps/hookrun"
	"addon-operator/store"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// newLog returns a logger that writes to w with the level and format in s. newLog sets the log
// level of the whole process.
func newLog(s settings.Settings, w io.Writer) (zerolog.Logger, error) {
	if err := debugapi.SetLogLevel(debugapi.LevelOf(s.LogLevel)); err != nil {
		return zerolog.Logger{}, settings.Invalid("--log-level is %q; %w", s.LogLevel, err)
	}
	switch s.LogType {
	case "json":
	case "text", "color":
		w = zerolog.ConsoleWriter{Out: w, NoColor: s.LogType == "text", TimeFormat: "2006-01-02T15:04:05.000Z07:00", PartsExclude: hidden(s.LogNoTime)}
	default:
		return zerolog.Logger{}, settings.Invalid("--log-type is %q; it can be text, json or color", s.LogType)
	}
	nameLogFields()
	c := zerolog.New(zerolog.SyncWriter(w)).With()
	if s.LogType == "json" {
		c = c.Str("logger", "addon-operator")
	}
	if !s.LogNoTime {
		c = c.Timestamp()
	}
	return c.Logger(), nil
}

func hidden(noTime bool) []string {
	if noTime {
		return []string{zerolog.TimestampFieldName}
	}
	return nil
}

// nameLogFields sets global variables of zerolog.
var nameLogFields = sync.OnceFunc(func() {
	zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00"
	zerolog.MessageFieldName = "msg"
})

// libraryLog is the logger last passed to captureLogs. The loggers of libraries read libraryLog for each line. The
// libraries keep their loggers in global variables without a lock, so captureLogs sets these variables only once.
var libraryLog atomic.Pointer[zerolog.Logger]

// captureLogs redirects the logs of libraries to log. Errors of the Kubernetes client are logged as
// warnings, and its other lines with level debug.
func captureLogs(log zerolog.Logger) {
	libraryLog.Store(&log)
	captureOnce()
}

var captureOnce = sync.OnceFunc(func() {
	stdlog.SetFlags(0)
	stdlog.SetPrefix("")
	stdlog.SetOutput(libraryLines{})
	klog.SetLogger(logr.New(clientLog{}))
})

// libraryLines logs each line that a library writes to the standard logger.
type libraryLines struct{}

// Write logs p as one message.
func (libraryLines) Write(p []byte) (int, error) {
	return lines{libraryLog.Load().With().Str("source", "library").Logger()}.Write(p)
}

// lines is a writer that logs each text written to it as a warning.
type lines struct{ log zerolog.Logger }

// Write logs p as one message.
func (l lines) Write(p []byte) (int, error) {
	l.log.Warn().Msg(string(bytes.TrimSpace(p)))
	return len(p), nil
}

// clientLog is the logr.LogSink of the Kubernetes client. clientLog writes to libraryLog.
type clientLog struct{ fields []any }

// Init implements logr.LogSink.
func (clientLog) Init(logr.RuntimeInfo) {}

// Enabled reports whether lines of the verbosity level are logged: only level 0, and only if the
// log level is debug.
func (clientLog) Enabled(level int) bool {
	return level <= 0 && zerolog.GlobalLevel() <= zerolog.DebugLevel
}

// Info writes a debug line.
func (c clientLog) Info(_ int, msg string, pairs ...any) {
	c.write(libraryLog.Load().Debug(), msg, pairs)
}

// Error writes a warning and not an error, because the caller of the client decides how serious a
// failed request is.
func (c clientLog) Error(err error, msg string, pairs ...any) {
	c.write(libraryLog.Load().Warn().Err(err), msg, pairs)
}

func (c clientLog) write(e *zerolog.Event, msg string, pairs []any) {
	e.Str("source", "kubernetes client").Fields(c.fields).Fields(pairs).Msg(msg)
}

// WithValues returns a sink that adds pairs to each line.
func (c clientLog) WithValues(pairs ...any) logr.LogSink {
	return clientLog{append(slices.Clip(c.fields), pairs...)}
}

// WithName returns a sink that adds a name to each line.
func (c clientLog) WithName(name string) logr.LogSink { return c.WithValues("client", name) }

// logRecord logs a history record.
func logRecord(log zerolog.Logger, r store.Record) {
	e := log.Info()
	if r.State == store.Failed || r.State == store.Allowed {
		e = log.Error().Str("error", r.Error)
	}
	if event := eventType(graph.NodeID(r.Node)); event != "" {
		e = e.Str("event.type", event)
	}
	e = e.Str("node", r.Node).Uint64("run", r.Run).Str("task.id", r.Task.String()).Str("queue", r.Queue)
	if subject := r.Subject.String(); subject != "" {
		e = e.Str("subject", subject)
	}
	if !r.Began.IsZero() {
		e = e.Str("took", debugapi.Short(r.Ended.Sub(r.Began)))
	}
	if r.Try > 1 {
		e = e.Int("try", r.Try)
	}
	if r.Again {
		e = e.Bool("again", true)
	}
	if r.Detail != "" {
		e = e.Str("detail", r.Detail)
	}
	if r.Warning != "" {
		e = e.Str("warning", r.Warning)
	}
	e.Msg(string(r.State))
}

// eventType returns the type of the bindings for which a node runs hooks; empty if the node runs no
// hooks.
func eventType(node graph.NodeID) string {
	switch node {
	case lifecycle.GlobalSynchronization, lifecycle.ModuleSynchronization, lifecycle.GlobalKubernetesEvent, lifecycle.ModuleKubernetesEvent:
		return "kubernetes"
	case lifecycle.GlobalScheduleEvent, lifecycle.ModuleScheduleEvent:
		return "schedule"
	default:
		return hookrun.BindingType(node)
	}
}

// requestLog returns a wrapper of HTTP transports that logs each request to the API server and the
// status of its response, without bodies.
func requestLog(log zerolog.Logger) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			began := time.Now()
			response, err := next.RoundTrip(r)
			line := log.Info().Str("method", r.Method).Str("path", r.URL.RequestURI()).Str("took", debugapi.Short(time.Since(began)))
			if err != nil {
				line = line.Err(err)
			} else {
				line = line.Int("status", response.StatusCode)
			}
			line.Msg("kubernetes request")
			return response, err
		})
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

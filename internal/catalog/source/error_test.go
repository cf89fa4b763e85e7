package source

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"

	"addon-operator/internal/api"
)

func TestErrorsOfLibrariesAreDescribedWithoutTheURL(t *testing.T) {
	t.Parallel()
	dial := func(err error) error {
		return &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 443}, Err: os.NewSyscallError("connect", err)}
	}
	get := func(err error) error {
		return &url.Error{Op: "Get", URL: "https://host/index.yaml?token=S3cr3t", Err: err}
	}
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"own error in another":               {get(fmt.Errorf("dialing: %w", failed("the address is refused"))), "the address is refused"},
		"unknown host":                       {get(&net.DNSError{Err: "no such host", Name: "example.invalid", IsNotFound: true}), "host example.invalid not found"},
		"failed lookup":                      {get(&net.DNSError{Err: "server misbehaving", Name: "example.com", Server: "10.0.0.1:53"}), "lookup of host example.com failed"},
		"lookup that timed out":              {get(&net.DNSError{Err: "i/o timeout", Name: "example.com", IsTimeout: true}), "lookup of host example.com failed"},
		"deadline of the context":            {get(context.DeadlineExceeded), "the server did not respond in time"},
		"deadline of the connection":         {dial(os.ErrDeadlineExceeded), "the server did not respond in time"},
		"timeout of the system":              {dial(syscall.ETIMEDOUT), "the server did not respond in time"},
		"refused connection":                 {get(dial(syscall.ECONNREFUSED)), "connection refused (192.0.2.7:443)"},
		"reset connection":                   {get(dial(syscall.ECONNRESET)), "connection reset by the server (192.0.2.7:443)"},
		"reset connection without address":   {get(os.NewSyscallError("read", syscall.ECONNRESET)), "connection reset by the server"},
		"unreachable host":                   {dial(syscall.EHOSTUNREACH), "no route to the host (192.0.2.7:443)"},
		"unreachable network":                {dial(syscall.ENETUNREACH), "no route to the network of the host (192.0.2.7:443)"},
		"certificate":                        {get(&tls.CertificateVerificationError{Err: errors.New("it has expired")}), "the certificate of the server is not valid (it has expired)"},
		"end of the connection":              {get(io.EOF), "the server closed the connection too early"},
		"end of the connection in a message": {get(fmt.Errorf("reading the header: %w", io.ErrUnexpectedEOF)), "the server closed the connection too early"},
		"temporary file":                     {&os.PathError{Op: "write", Path: "/tmp/addons-fetch/spool-1", Err: syscall.ENOSPC}, "write failed (no space left on device)"},
		"other error of a request":           {get(errors.New("malformed HTTP response")), "malformed HTTP response"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := describe(test.err); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestAWrappedErrorKeepsWhetherTheContentIsInvalid(t *testing.T) {
	t.Parallel()
	if err := wrap("while reading", nil); err != nil {
		t.Errorf("got %v for no error", err)
	}
	for name, test := range map[string]struct {
		err  error
		want plainError
	}{
		"failed fetch":       {failed("bad response code: %d", 404), plainError{text: "while reading: bad response code: 404"}},
		"invalid content":    {invalid("%s is too large", "x"), plainError{text: "while reading: x is too large", loading: true}},
		"error of a library": {io.ErrUnexpectedEOF, plainError{text: "while reading: the server closed the connection too early"}},
	} {
		got, ok := errors.AsType[*plainError](wrap("while reading", test.err))
		if !ok || *got != test.want {
			t.Errorf("%s: got %+v, want %+v", name, got, test.want)
		}
	}
}

func TestOnlyAFailedFetchOfInvalidContentGetsTheReasonLoadingError(t *testing.T) {
	t.Parallel()
	r := newRedactor(hidden{})
	for _, test := range []struct {
		asked api.Reason
		err   error
		want  api.Reason
	}{
		{api.FetchingError, failed("x"), api.FetchingError},
		{api.FetchingError, invalid("x"), api.LoadingError},
		{api.FetchingError, io.ErrUnexpectedEOF, api.FetchingError},
		{api.FetchingIndexError, invalid("x"), api.FetchingIndexError},
		{api.LoadingError, failed("x"), api.LoadingError},
	} {
		if got := reasonOf(r.fail(t.Context(), test.asked, "while testing", test.err)); got != test.want {
			t.Errorf("%s for %#v: got %s, want %s", test.asked, test.err, got, test.want)
		}
	}
	if err := r.fail(t.Context(), api.FetchingError, "while testing", nil); err != nil {
		t.Errorf("got %v for no error", err)
	}
}

// If the context has ended, fail must return the cause of the context, even if the fetch failed
// with another error.
func TestAfterTheEndOfTheContextTheErrorIsItsCause(t *testing.T) {
	t.Parallel()
	stopped := errors.New("the operator stops")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stopped)
	if err := newRedactor(hidden{}).fail(ctx, api.FetchingError, "while testing", io.EOF); err != stopped { //nolint:errorlint // the cause itself
		t.Errorf("got %v, want %v", err, stopped)
	}
}

func TestNumbersOfBytesAreWrittenInTheLargestUnitThatDividesThem(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		0: "0 bytes", 1: "1 bytes", 1023: "1023 bytes", 1024: "1 KiB", 1025: "1025 bytes", 1536: "1536 bytes", 300 << 10: "300 KiB",
		1 << 20: "1 MiB", 1<<20 + 1: "1048577 bytes", 1<<20 + 1<<10: "1025 KiB", 1 << 30: "1024 MiB",
	} {
		if got := size(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}

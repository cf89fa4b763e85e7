package source

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"

	"addon-operator/internal/api"
)

// An Error means that an index or an addon could not be fetched. Its text contains no secret of the repository. It
// wraps no other error, because the text of a wrapped error could contain secrets.
type Error struct {
	// Reason is FetchingIndexError, FetchingError or LoadingError.
	Reason api.Reason
	// Permanent is true if further requests for the same URL would fail in the same way, until the spec or the
	// settings of the operator change.
	Permanent bool

	text string
}

// Error returns the operation that failed, and the reason.
func (e *Error) Error() string { return e.text }

// A plainError is an error whose text was written in this package. The text contains no text of a server. Of the
// address, it contains only the host and paths.
type plainError struct {
	text    string
	loading bool // the fetched content is invalid
}

func (e *plainError) Error() string { return e.text }

func failed(format string, args ...any) error { return &plainError{text: fmt.Sprintf(format, args...)} }

func invalid(format string, args ...any) error {
	return &plainError{text: fmt.Sprintf(format, args...), loading: true}
}

// wrap adds the prefix during to the description of an error of this package or of a library. If err is nil, it
// returns nil.
func wrap(during string, err error) error {
	if err == nil {
		return nil
	}
	out := plainError{text: during + ": " + describe(err)}
	if plain, ok := errors.AsType[*plainError](err); ok {
		out.loading = plain.loading
	}
	return &out
}

// fail returns the error of a method of Repository, without secrets. If ctx has ended, it returns the cause of ctx.
// If err is nil, it returns nil.
func (r *redactor) fail(ctx context.Context, reason api.Reason, during string, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	out := &Error{Reason: reason, text: r.clean(during + ": " + describe(err))}
	if plain, ok := errors.AsType[*plainError](err); ok && plain.loading && reason == api.FetchingError {
		out.Reason = api.LoadingError
	}
	return out
}

// describe returns a text for an error. It cuts the texts of errors of net/http, because they contain URLs.
func describe(err error) string {
	if plain, ok := errors.AsType[*plainError](err); ok {
		return plain.text
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		if dns.IsNotFound {
			return fmt.Sprintf("host %s not found", dns.Name)
		}
		return fmt.Sprintf("lookup of host %s failed", dns.Name)
	}
	if timedOut(err) {
		return "the server did not respond in time"
	}
	if verification, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "the certificate of the server is not valid (" + verification.Err.Error() + ")"
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "the certificate of the server is not valid (" + err.Error() + ")"
	}
	for number, text := range map[syscall.Errno]string{
		syscall.ECONNREFUSED: "connection refused", syscall.ECONNRESET: "connection reset by the server",
		syscall.EHOSTUNREACH: "no route to the host", syscall.ENETUNREACH: "no route to the network of the host",
	} {
		if errors.Is(err, number) {
			if op, ok := errors.AsType[*net.OpError](err); ok && op.Addr != nil {
				return fmt.Sprintf("%s (%s)", text, op.Addr)
			}
			return text
		}
	}
	if failure, ok := errors.AsType[*url.Error](err); ok { // its text contains the URL
		return describe(failure.Err)
	}
	if path, ok := errors.AsType[*os.PathError](err); ok { // its text contains names of temporary files
		return fmt.Sprintf("%s failed (%v)", path.Op, path.Err)
	}
	text := err.Error()
	if strings.Contains(text, "EOF") {
		return "the server closed the connection too early"
	}
	return text
}

func timedOut(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return true
	}
	network, ok := errors.AsType[net.Error](err)
	return ok && network.Timeout()
}

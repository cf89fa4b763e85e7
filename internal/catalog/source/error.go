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

// An Error says why an index or an addon could not be fetched. Its text contains no secret parts of the address. It
// wraps no other error, because the text of a wrapped error could contain them.
type Error struct {
	// Reason is [api.EmptyURLError], [api.FetchingIndexError], [api.FetchingError] or [api.LoadingError].
	Reason api.Reason
	// Permanent is set if further requests for the same URL would fail in the same way until the spec of the
	// configuration, its Secret or the settings of the operator change.
	Permanent bool

	text string
}

// Error returns the description of the failed operation and of the reason for the failure.
func (e *Error) Error() string { return e.text }

// A plainError is an error whose text is composed in this package. The text can quote a message of a server or program,
// so it can contain secrets until the redactor removes them.
type plainError struct {
	text    string
	loading bool // whether the fetched content is invalid
}

func (e *plainError) Error() string { return e.text }

func failed(format string, args ...any) error { return &plainError{text: fmt.Sprintf(format, args...)} }

func invalid(format string, args ...any) error {
	return &plainError{text: fmt.Sprintf(format, args...), loading: true}
}

// wrap returns a plainError whose text is the given prefix, a colon, and the description of err. If err is nil, it
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

// fail returns err as an [Error] without secrets, for a method of Repository. If ctx has ended, fail returns the cause
// of ctx instead. If err is nil, fail returns nil.
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

// describe returns a description of an error. It does not use the whole text of errors of net/http and package os,
// because they contain URLs and paths of temporary files.
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
	if failure, ok := errors.AsType[*url.Error](err); ok { // the text of url.Error contains the URL
		return describe(failure.Err)
	}
	if path, ok := errors.AsType[*os.PathError](err); ok { // the text of os.PathError can contain the path of a temporary file
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

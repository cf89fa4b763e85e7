package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/cenkalti/backoff/v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
)

// ErrNotServed matches, with errors.Is, the error for a kind that the API server does not serve.
var ErrNotServed = errors.New("the API server does not serve this kind")

// errConflicts is the error of a write whose attempts all failed with a conflict.
var errConflicts = errors.New("changed by other writers during each attempt")

// errAhead is the error for a version that is newer than the server's newest version: the server
// was restored from a backup.
var errAhead = errors.New("the version is newer than the server's newest version")

// NotServedError reports which kind is not served. It matches [ErrNotServed].
type NotServedError struct {
	// APIVersion is the requested group/version; empty means any.
	APIVersion string
	// Kind is the requested kind.
	Kind string
	// Undiscovered is the error of API groups whose kinds could not be read; nil if all groups
	// could be read. The kind may be in one of these groups.
	Undiscovered error
}

// Error names the kind, and the API groups that could not be read.
func (e *NotServedError) Error() string {
	text := fmt.Sprintf("kind %q: %v", e.Kind, ErrNotServed)
	if e.APIVersion != "" {
		text = fmt.Sprintf("kind %q of %s: %v", e.Kind, e.APIVersion, ErrNotServed)
	}
	if e.Undiscovered != nil {
		text += fmt.Sprintf(" (the kinds of some API groups could not be read: %v)", e.Undiscovered)
	}
	return text
}

// Is makes errors.Is match [ErrNotServed].
func (e *NotServedError) Is(target error) bool { return target == ErrNotServed }

// IsRefused reports whether a retry of the same request is useless: the API server answered with a
// 4xx status other than 408, 409 and 429, or all attempts of a write failed with a conflict. After
// all other errors, such as 5xx, timeouts and broken connections, a retry may succeed.
func IsRefused(err error) bool {
	if errors.Is(err, errConflicts) {
		return true
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch code := status.Status().Code; code {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return false
	default:
		return code >= http.StatusBadRequest && code < http.StatusInternalServerError
	}
}

// isVersionRefused reports whether err means that a watch cannot start from the requested version.
func isVersionRefused(err error) bool {
	return errors.Is(err, errAhead) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}

const (
	retryFirst = 50 * time.Millisecond
	retryLast  = 10 * time.Second
)

// retry is the backoff of requests to the API server. The zero value is ready to use.
type retry struct {
	delays *backoff.ExponentialBackOff // nil until an attempt has ended
}

// reset makes the next delay the shortest. Call it when the API server has answered.
func (r *retry) reset() { r.delays = nil }

// next returns the delay after an attempt that ended with err: 50 ms, doubled after each attempt up
// to 10 s, with jitter. If the API server requests a longer delay, next returns the longer one.
// After a first attempt that ended without an error, such as a watch that the server ended, the
// delay is zero.
func (r *retry) next(err error) time.Duration {
	if r.delays == nil {
		r.delays = backoff.NewExponentialBackOff(
			backoff.WithInitialInterval(retryFirst), backoff.WithMultiplier(2), backoff.WithRandomizationFactor(0),
			backoff.WithMaxInterval(retryLast), backoff.WithMaxElapsedTime(0),
		)
		if err == nil {
			return 0
		}
	}
	delay := r.delays.NextBackOff()
	if seconds, asked := apierrors.SuggestsClientDelay(err); asked {
		delay = max(delay, time.Duration(seconds)*time.Second)
	}
	return wait.Jitter(delay, 0.2)
}

// pause waits for the delay of next, or until ctx ends or wake receives an element; wake may be
// nil.
func (r *retry) pause(ctx context.Context, err error, wake <-chan struct{}) {
	delay := r.next(err)
	if delay == 0 {
		return
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-timer.C:
	}
}

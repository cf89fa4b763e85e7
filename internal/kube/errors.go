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

// ErrNotServed means that the API server does not serve a kind. Test for it with errors.Is.
var ErrNotServed = errors.New("the API server does not serve this kind")

// errConflicts means that all attempts of a write have failed because of conflicts.
var errConflicts = errors.New("changed by other writers during each attempt")

// errAhead means that the requested version is newer than the newest version of the API server. This happens after the
// API server was restored from a backup.
var errAhead = errors.New("the version is newer than the server's newest version")

// NotServedError says which kind is not served. With errors.Is, it matches [ErrNotServed].
type NotServedError struct {
	// APIVersion is the requested group/version. It is empty if the request names none.
	APIVersion string
	// Kind is the requested kind.
	Kind string
	// Undiscovered says for which API groups the kinds could not be read, and why. The kind may be in one of these
	// groups. If the kinds of all groups could be read, Undiscovered is nil.
	Undiscovered error
}

// Error contains APIVersion, Kind and Undiscovered.
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

// Is reports whether target is [ErrNotServed]. [errors.Is] calls it.
func (e *NotServedError) Is(target error) bool { return target == ErrNotServed }

// undecidedError means that a kind was found in one version of its group, but the kinds of a more preferred version
// cannot be read. So it is unknown which version is the preferred version of the kind.
type undecidedError struct {
	found Kind
	err   error
}

func (e *undecidedError) Error() string {
	return fmt.Sprintf("%v; %s has the kind, but is not the preferred version", e.err, e.found.GroupVersion())
}

func (e *undecidedError) Unwrap() error { return e.err }

// IsRefused reports whether it is useless to send the same request again. This is so if the API server has answered
// with a 4xx status other than 401, 408, 409 and 429, or if all attempts of a write have failed because of conflicts.
// After any other error, such as a 5xx status, a timeout or a broken connection, another attempt may succeed. The
// status 401 does not depend on the request: the token has expired, for example while the machine was asleep, and the
// client reads a new token from its file within a minute.
func IsRefused(err error) bool {
	if errors.Is(err, errConflicts) {
		return true
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch code := status.Status().Code; code {
	case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return false
	default:
		return code >= http.StatusBadRequest && code < http.StatusInternalServerError
	}
}

// isVersionRefused reports whether err means that a watch cannot start or continue at its version.
func isVersionRefused(err error) bool {
	return errors.Is(err, errAhead) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}

const (
	retryFirst = 50 * time.Millisecond
	retryLast  = 10 * time.Second
)

// retry determines the delays between attempts of a request to the API server. The zero value is ready to use.
type retry struct {
	delays *backoff.ExponentialBackOff // nil until an attempt has ended
}

// reset makes the next delay as short as the first. Call reset when the API server has answered.
func (r *retry) reset() { r.delays = nil }

// next returns the delay after an attempt that has ended with err. The delay is 50 ms after the first attempt, and is
// doubled after each further attempt up to 10 s. If the API server requests a longer delay, next uses the longer one.
// The result is up to 20 % longer at random. If the first attempt has ended without an error, such as a watch that the
// server has ended, the delay is zero.
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

// pause waits for the delay that next returns. pause returns earlier if ctx ends, or if the channel wake has an
// element. The channel may be nil.
func (r *retry) pause(ctx context.Context, err error, wake <-chan struct{}) {
	if delay := r.next(err); delay > 0 {
		sleep(ctx, delay, wake)
	}
}

// sleep waits for the delay. sleep returns earlier if ctx ends, or if the channel wake has an element. The channel may
// be nil.
func sleep(ctx context.Context, delay time.Duration, wake <-chan struct{}) {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-timer.C:
	}
}

package webui

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/sync/errgroup"
)

// A source sends requests to the debug API, which is a handler in the same process, without a
// network connection.
type source struct{ api http.Handler }

// An answerError is an error with the HTTP status of the answer.
type answerError struct {
	status int
	text   string
}

func (e *answerError) Error() string { return e.text }

func badRequest(format string, args ...any) error {
	return &answerError{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

func notFound(format string, args ...any) error {
	return &answerError{http.StatusNotFound, fmt.Sprintf(format, args...)}
}

// get requests path as JSON and decodes the answer into *into. Secrets in the answer are masked.
func (s source) get(ctx context.Context, path string, query url.Values, into any) error {
	body, err := s.text(ctx, path+".json", query)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("read the answer to %s: %w", path, err)
	}
	return nil
}

// together calls the functions at the same time, waits for all of them, and returns the first error. Each function
// reads its own snapshot of the store.
func together(questions ...func() error) error {
	var group errgroup.Group
	for _, question := range questions {
		group.Go(question)
	}
	return group.Wait()
}

// text sends a GET request to path and returns the body of the answer.
func (s source) text(ctx context.Context, path string, query url.Values) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://operator"+path+"?"+query.Encode(), http.NoBody)
	if err != nil {
		return nil, err
	}
	return s.send(request)
}

// post sends a form to path and returns the answer.
func (s source) post(ctx context.Context, path string, form url.Values) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://operator"+path, strings.NewReader(form.Encode()))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	body, err := s.send(request)
	return strings.TrimSpace(string(body)), err
}

func (s source) send(request *http.Request) ([]byte, error) {
	var a answer
	s.api.ServeHTTP(&a, request)
	if a.status >= http.StatusMultipleChoices {
		return nil, &answerError{a.status, strings.TrimSpace(a.body.String())}
	}
	return a.body.Bytes(), nil
}

// An answer is an [http.ResponseWriter] that stores the answer of a handler.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header {
	if a.header == nil {
		a.header = http.Header{}
	}
	return a.header
}

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(b)
}

package sourcetest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// An S3 is an S3-compatible server with one bucket. It rejects requests that do not have a valid AWS signature of
// version 4.
type S3 struct {
	*httptest.Server

	Bucket, AccessKey, SecretKey, Region string

	backend gofakes3.Backend
	t       testing.TB
}

// ServeS3 starts a server with an empty bucket, over HTTPS, until the end of the test.
func ServeS3(t testing.TB) *S3 {
	t.Helper()
	s := &S3{Bucket: "addons", AccessKey: "id-S3cr3t", SecretKey: "key/S3cr3t+x=", Region: "eu-west-1", backend: s3mem.New(), t: t}
	if err := s.backend.CreateBucket(s.Bucket); err != nil {
		t.Fatal(err)
	}
	handler := gofakes3.New(s.backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server()
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if code := s.refuse(r); code != "" {
			w.Header().Set("X-Amz-Bucket-Region", s.Region)
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`<?xml version="1.0"?><Error><Code>` + code + `</Code><Message>` + r.Header.Get("Authorization") + `</Message></Error>`))
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// Put stores objects in the bucket. The keys of the map are the keys of the objects.
func (s *S3) Put(objects map[string]string) {
	s.t.Helper()
	for key, text := range objects {
		if _, err := s.backend.PutObject(s.Bucket, key, map[string]string{}, strings.NewReader(text), int64(len(text)), nil); err != nil {
			s.t.Fatal(err)
		}
	}
}

// refuse returns the S3 error code for a request whose signature is missing or wrong. For a valid request, it returns
// "".
func (s *S3) refuse(r *http.Request) string {
	fields := map[string]string{}
	algorithm, rest, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	for field := range strings.SplitSeq(rest, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(field), "=")
		fields[name] = value
	}
	scope := strings.Split(fields["Credential"], "/")
	switch {
	case algorithm != "AWS4-HMAC-SHA256" || len(scope) != 5:
		return "AccessDenied"
	case scope[0] != s.AccessKey:
		return "InvalidAccessKeyId"
	case scope[2] != s.Region:
		return "AuthorizationHeaderMalformed"
	}
	key := []byte("AWS4" + s.SecretKey)
	for _, part := range scope[1:] {
		key = sign(key, part)
	}
	canonical := sha256.Sum256([]byte(s.canonical(r, strings.Split(fields["SignedHeaders"], ";"))))
	text := strings.Join([]string{algorithm, r.Header.Get("X-Amz-Date"), strings.Join(scope[1:], "/"), hex.EncodeToString(canonical[:])}, "\n")
	if got, err := hex.DecodeString(fields["Signature"]); err != nil || !hmac.Equal(got, sign(key, text)) {
		return "SignatureDoesNotMatch"
	}
	return ""
}

func sign(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

func (s *S3) canonical(r *http.Request, signed []string) string {
	var query []string
	for name, values := range r.URL.Query() {
		for _, value := range values {
			query = append(query, escape(name)+"="+escape(value))
		}
	}
	slices.Sort(query)
	var headers strings.Builder
	for _, name := range signed {
		value := r.Header.Get(name)
		if name == "host" {
			value = r.Host
		}
		headers.WriteString(name + ":" + strings.TrimSpace(value) + "\n")
	}
	path := strings.ReplaceAll(escape(r.URL.Path), "%2F", "/")
	return strings.Join([]string{r.Method, path, strings.Join(query, "&"), headers.String(), strings.Join(signed, ";"), r.Header.Get("X-Amz-Content-Sha256")}, "\n")
}

func escape(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

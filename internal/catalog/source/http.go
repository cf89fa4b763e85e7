package source

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"net/url"
	"time"
)

// A client sends HTTP requests. The field limits has the limits of each request. The field slots limits the number of
// concurrent requests, in all and to one host. The client follows a redirect only to https, or to http in develop mode,
// and sends credentials only to the first host.
type client struct {
	develop   bool
	limits    Limits
	slots     *slots
	transport *http.Transport
}

// A request is an HTTP request. If its URL has a user, the user and the password are sent as basic auth.
type request struct {
	method string
	url    *url.URL
	header http.Header
	body   []byte
	// time is the timeout for the request, including the reading of its response. After a redirect, the timeout starts
	// again.
	time time.Duration
	// sign returns the request with credentials added. If sign is not nil, redirects are not followed.
	sign func(*http.Request) *http.Request
}

// A response is an HTTP response whose body can be read. The caller must call close.
type response struct {
	*http.Response
	url   *url.URL // URL after redirects
	close func()
}

// do sends the request, follows redirects, and returns the last response. The timeout of the request also limits the
// reading of the body.
func (c *client) do(ctx context.Context, r request) (*response, error) {
	header := r.header.Clone()
	if header == nil {
		header = http.Header{}
	}
	authorize(header, r.url.User)
	target := r.url
	for redirects := 0; ; redirects++ {
		out, err := c.once(ctx, r, target, header)
		if err != nil {
			return nil, err
		}
		next, err := c.redirect(out, r)
		if err != nil || next == nil {
			if err != nil {
				out.close()
			}
			return out, err
		}
		out.close()
		if redirects == c.limits.Redirects {
			return nil, failed("more than %d redirects", c.limits.Redirects)
		}
		if next.Scheme != target.Scheme || next.Host != target.Host {
			header.Del("Authorization")
		}
		target = next
	}
}

func authorize(header http.Header, user *url.Userinfo) {
	if user == nil {
		return
	}
	password, _ := user.Password()
	header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)))
}

// once sends the request to target, and does not follow a redirect.
func (c *client) once(ctx context.Context, r request, target *url.URL, header http.Header) (*response, error) {
	release, err := c.slots.acquire(ctx, target.Host)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, r.time)
	end := func() {
		cancel()
		release()
	}
	bare := *target
	bare.User = nil
	request, err := http.NewRequestWithContext(ctx, r.method, bare.String(), bytes.NewReader(r.body))
	if err != nil {
		end()
		return nil, failed("the address is not a valid URL")
	}
	request.Header = header.Clone()
	request.Header.Set("User-Agent", "addon-operator")
	if r.sign != nil {
		request = r.sign(request)
	}
	request = request.WithContext(c.trusting(ctx, request, r.url, target))
	got, err := c.transport.RoundTrip(request) //nolint:bodyclose // the caller closes the body with response.close
	if err != nil {
		end()
		return nil, err
	}
	return &response{Response: got, url: target, close: func() {
		// Read a short body to its end, so that the connection can be reused.
		const short = 16 << 10
		if 0 <= got.ContentLength && got.ContentLength <= short {
			_, _ = io.CopyN(io.Discard, got.Body, short)
		}
		got.Body.Close()
		end()
	}}, nil
}

// redirect returns the target of the given response if the response is a redirect that must be followed. Otherwise it
// returns nil. It returns an error if the redirect is not allowed.
func (c *client) redirect(from *response, r request) (*url.URL, error) {
	switch from.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return nil, nil //nolint:nilnil // neither a redirect nor an error
	}
	if r.sign != nil || r.method != http.MethodGet {
		return nil, nil //nolint:nilnil // the caller reports the response code as an error
	}
	next, err := from.Location()
	if err != nil {
		return nil, failed("bad response code: %d without a valid location", from.StatusCode)
	}
	if next.Scheme != "https" && (!c.develop || next.Scheme != "http") {
		return nil, failed("redirect to the scheme '%s' is refused", printable(next.Scheme))
	}
	if next.Hostname() == "" {
		return nil, failed("redirect without a host is refused")
	}
	next.User = nil
	next.Fragment, next.RawFragment = "", ""
	return next, nil
}

// read copies the body of the response to the given spool.
func (r *response) read(to *spool) error {
	if r.ContentLength > to.limit {
		return to.tooLarge()
	}
	if _, err := io.Copy(to, r.Body); err != nil {
		return err
	}
	// After a timeout, the read of an incomplete body can end without an error.
	return r.Request.Context().Err()
}

// An httpRepository is a repository on an HTTP server. url is the URL of its index, and the archives of addons are
// beside the index.
type httpRepository struct {
	fetcher *Fetcher
	url     *url.URL
}

func (h *httpRepository) index(ctx context.Context, known Validators) (*spool, Validators, error) {
	content, validators, err := h.get(ctx, h.url, known, h.fetcher.disk.newSpool("the index", h.fetcher.limits.Index))
	return content, validators, wrap("while getting index file", err)
}

func (h *httpRepository) addon(ctx context.Context, name, version string, known Validators) (*spool, Validators, error) {
	archive := beside(h.url, name+"-"+version+".tgz")
	return h.get(ctx, archive, known, h.fetcher.disk.newSpool("the archive", h.fetcher.limits.Archive))
}

func (h *httpRepository) close() error { return nil }

func (h *httpRepository) get(ctx context.Context, u *url.URL, known Validators, to *spool) (*spool, Validators, error) {
	header := http.Header{}
	if known.Digest != "" && known.ETag != "" {
		header.Set("If-None-Match", known.ETag)
	}
	if known.Digest != "" && known.LastModified != "" {
		header.Set("If-Modified-Since", known.LastModified)
	}
	got, err := h.fetcher.client.do(ctx, request{method: http.MethodGet, url: u, header: header, time: h.fetcher.limits.Request})
	if err != nil {
		return nil, Validators{}, err
	}
	defer got.close()
	if got.StatusCode == http.StatusNotModified && len(header) > 0 {
		return nil, Validators{ETag: known.ETag, LastModified: known.LastModified}, nil
	}
	if got.StatusCode != http.StatusOK {
		return nil, Validators{}, failed("bad response code: %d", got.StatusCode)
	}
	if err := got.read(to); err != nil {
		to.Close()
		return nil, Validators{}, err
	}
	// Ignore very long validators, because callers store them.
	const enough = 1 << 10
	v := Validators{ETag: got.Header.Get("ETag"), LastModified: lastModified(got.Header)}
	if len(v.ETag) > enough || len(v.LastModified) > enough {
		v = Validators{}
	}
	return to, v, nil
}

// lastModified returns the header Last-Modified of a response. It returns "" if the file was modified less than two
// seconds before the response: times in headers have a resolution of one second, so the file could change again and
// keep its time.
func lastModified(header http.Header) string {
	text := header.Get("Last-Modified")
	modified, err := http.ParseTime(text)
	sent, errSent := http.ParseTime(header.Get("Date"))
	if err != nil || errSent != nil || sent.Sub(modified) < 2*time.Second {
		return ""
	}
	return text
}

package source

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
)

// httpUploadPack is an uploadPack that uses the smart HTTP protocol of git.
type httpUploadPack struct {
	fetcher *Fetcher
	url     *url.URL
	open    *response
}

func (h *httpUploadPack) references(ctx context.Context) (io.Reader, error) {
	u := h.at("/info/refs")
	query := u.Query()
	query.Set("service", "git-upload-pack")
	u.RawQuery = query.Encode()
	got, err := h.do(ctx, request{method: http.MethodGet, url: u})
	if err != nil {
		return nil, err
	}
	if got.Header.Get("Content-Type") != "application/x-git-upload-pack-advertisement" {
		return nil, failed("the server does not serve this repository by the smart protocol of git")
	}
	// After a redirect, fetch the repository from the new address. Send the credentials only if the new address has the
	// same scheme and host.
	if moved, ok := strings.CutSuffix(got.url.Path, "/info/refs"); ok && got.url != u {
		now := *got.url
		now.Path, now.RawPath = moved, ""
		query := now.Query()
		query.Del("service")
		now.RawQuery = query.Encode()
		if now.Host == h.url.Host && now.Scheme == h.url.Scheme {
			now.User = h.url.User
		}
		h.url = &now
	}
	return got.Body, nil
}

func (h *httpUploadPack) request(ctx context.Context, text []byte) (io.Reader, error) {
	h.close()
	header := http.Header{
		"Content-Type": {"application/x-git-upload-pack-request"},
		"Accept":       {"application/x-git-upload-pack-result"},
	}
	got, err := h.do(ctx, request{method: http.MethodPost, url: h.at("/git-upload-pack"), header: header, body: text})
	if err != nil {
		return nil, err
	}
	return got.Body, nil
}

func (h *httpUploadPack) do(ctx context.Context, r request) (*response, error) {
	r.time = h.fetcher.limits.Command
	got, err := h.fetcher.client.do(ctx, r)
	if err != nil {
		return nil, err
	}
	h.open = got
	if got.StatusCode != http.StatusOK {
		return nil, failed("bad response code: %d", got.StatusCode)
	}
	return got, nil
}

func (h *httpUploadPack) at(path string) *url.URL {
	u := *h.url
	u.Path, u.RawPath = strings.TrimSuffix(u.Path, "/")+path, ""
	return &u
}

func (h *httpUploadPack) close() {
	if h.open != nil {
		h.open.close()
		h.open = nil
	}
}

// localUploadPack is an uploadPack for a repository in a local directory, which is allowed only in develop mode. It
// runs git upload-pack, so the program git must be installed.
type localUploadPack struct {
	dir    string
	stdin  io.WriteCloser
	stdout io.Reader
	stderr bytes.Buffer
	end    context.CancelFunc
	done   chan struct{}
}

func (l *localUploadPack) references(ctx context.Context) (io.Reader, error) {
	ctx, l.end = context.WithCancel(ctx)
	command := exec.CommandContext(ctx, "git", "upload-pack", l.dir)
	stdin, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, in := io.Pipe()
	command.Stdout, command.Stderr = in, &l.stderr
	l.stdin, l.stdout = stdin, out
	if err := command.Start(); err != nil {
		in.Close()
		if errors.Is(err, exec.ErrNotFound) {
			return nil, failed("git::file:// needs the program git, which is not installed")
		}
		return nil, failed("starting git failed")
	}
	l.done = make(chan struct{})
	go func() {
		defer close(l.done)
		err := command.Wait()
		if err != nil {
			err = failed("git upload-pack fails: %s", strings.TrimSpace(l.stderr.String()))
		}
		in.CloseWithError(err)
	}()
	return out, nil
}

func (l *localUploadPack) request(_ context.Context, text []byte) (io.Reader, error) {
	_, err := l.stdin.Write(text)
	return l.stdout, err
}

func (l *localUploadPack) close() {
	if l.done == nil {
		return
	}
	l.end()
	if c, ok := l.stdout.(io.Closer); ok {
		c.Close()
	}
	<-l.done
}

package story

import (
	"bytes"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"addon-operator/internal/catalog/sourcetest"
)

var sourceCommands = map[string]command{
	"git-servers": serveGit,
	"s3-server":   serveS3,
	"concealed":   checkConcealed,
}

// serveGit implements the command "git-servers DIR". It serves the git repositories below the directory DIR over ssh
// and HTTPS, and sets $GIT_SSH, $GIT_SSH_KEY, $GIT_KNOWN_HOSTS, $GIT_HTTPS, $GIT_USER and $GIT_PASSWORD.
func serveGit(w *environment, ts *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return usage("git-servers DIR")
	}
	const user, password = "reader", "p@ss/w?rd+{&}"
	ssh := sourcetest.ServeSSH(w.t, w.path(args[0]))
	https := sourcetest.ServeGit(w.t, w.path(args[0]), user, password)
	ts.Setenv("GIT_SSH", ssh.Addr)
	ts.Setenv("GIT_SSH_KEY", ssh.Key)
	ts.Setenv("GIT_KNOWN_HOSTS", ssh.KnownHosts)
	ts.Setenv("GIT_HTTPS", strings.TrimPrefix(https.URL, "https://"))
	ts.Setenv("GIT_USER", user)
	ts.Setenv("GIT_PASSWORD", password)
	return trust(w, https)
}

// serveS3 implements the command "s3-server DIR". It serves the files below the directory DIR as objects of an S3
// bucket. It sets $S3 to the URL of the bucket, and sets $S3_ID, $S3_KEY and $S3_REGION.
func serveS3(w *environment, ts *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return usage("s3-server DIR")
	}
	objects := map[string]string{}
	files := os.DirFS(w.path(args[0]))
	if err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, name)
		objects[name] = string(text)
		return err
	}); err != nil {
		return err
	}
	s3 := sourcetest.ServeS3(w.t)
	s3.Put(objects)
	ts.Setenv("S3", s3.URL+"/"+s3.Bucket)
	ts.Setenv("S3_ID", s3.AccessKey)
	ts.Setenv("S3_KEY", s3.SecretKey)
	ts.Setenv("S3_REGION", s3.Region)
	return trust(w, s3.Server)
}

// trust writes the certificate of the given server to a file. Operators that the story starts later trust this
// certificate. The next call of trust replaces it.
func trust(w *environment, server *httptest.Server) error {
	w.certificates = w.path("certificates.pem")
	return os.WriteFile(w.certificates, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600)
}

// checkConcealed implements the command "concealed VALUE PATH...". It fails if VALUE occurs in one of the files, or in
// a file below one of the directories. It searches for VALUE in all forms in which programs usually write a value. An
// empty file is an error, too.
func checkConcealed(w *environment, _ *testscript.TestScript, args []string) error {
	if len(args) < 2 || args[0] == "" {
		return usage("concealed VALUE PATH...")
	}
	forms := formsOf(args[0])
	for _, path := range args[1:] {
		if err := filepath.WalkDir(w.path(path), func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(file)
			if err == nil && len(bytes.TrimSpace(text)) == 0 {
				err = fmt.Errorf("%s is empty, so it proves nothing", d.Name())
			}
			for _, form := range forms {
				if at := bytes.Index(text, []byte(form)); at >= 0 {
					err = errors.Join(err, fmt.Errorf("%s contains %q: %.300q", d.Name(), form, text[max(0, at-100):]))
				}
			}
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// formsOf returns the forms in which programs usually write value: as it is, quoted, escaped for URLs, and encoded or
// decoded as base64.
func formsOf(value string) []string {
	forms := []string{
		value, strings.Trim(strconv.Quote(value), `"`), url.QueryEscape(value), url.PathEscape(value), url.User(value).String(),
		base64.StdEncoding.EncodeToString([]byte(value)), base64.RawURLEncoding.EncodeToString([]byte(value)),
	}
	if decoded, err := base64.StdEncoding.DecodeString(value); err == nil {
		forms = append(forms, string(decoded))
	}
	return forms
}

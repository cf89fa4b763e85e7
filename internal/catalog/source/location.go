package source

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A kind is the protocol with which a repository is fetched.
type kind string

const (
	kindHTTP kind = "http"
	kindGit  kind = "git"
	kindHg   kind = "hg"
	kindS3   kind = "s3"
	kindFile kind = "file"
)

// A location is a parsed repository URL.
type location struct {
	kind kind
	// root is the URL of the whole git or hg repository, or of the prefix in an S3 bucket. For http and file, it is
	// the URL of the index. Its query does not contain the parameters that readQuery has read.
	root *url.URL
	// index is the path of the index below root. It is empty for http and file.
	index string

	ref        string // query parameter ref for git, or rev for hg; empty if not set
	privateKey []byte // for git over ssh, in PEM format
	s3         s3Access
}

// s3Access has the credentials for an S3 bucket, and its region. The credentials are empty for a public bucket.
type s3Access struct {
	key, secret, token, region string
}

var (
	// forcedScheme matches a prefix such as git:: of a repository URL, which selects the kind of the repository.
	forcedScheme = regexp.MustCompile(`^[A-Za-z0-9]+::`)
	// scpForm matches the form [user@]host:path, in which the program scp writes an ssh address.
	scpForm = regexp.MustCompile(`^(?:[^@/?#:]+@)?[^@/?#:]+:[^/?#]`)
)

// shorthands are the hosts of git repositories whose URL needs no scheme: HOST/OWNER/NAME//PATH.
var shorthands = []string{"github.com", "gitlab.com", "bitbucket.org"}

// parse parses a repository URL in which placeholders are already replaced. Because the URL can contain secrets, errors
// contain no part of it except the scheme, or the host of a shorthand.
func parse(rendered string, develop bool) (location, error) {
	forced := strings.TrimSuffix(forcedScheme.FindString(rendered), "::")
	text := rendered
	if forced != "" {
		text = rendered[len(forced)+len("::"):]
	}
	if second := forcedScheme.FindString(text); second != "" {
		return location{}, unsupported(forced + "::" + strings.TrimSuffix(second, "::"))
	}
	text, implied, err := expand(text)
	if err != nil {
		return location{}, err
	}
	if forced == "" {
		forced = implied
	}
	root, err := url.Parse(text)
	if err != nil {
		return location{}, errors.New("the repository URL is not a valid URL")
	}
	root.Fragment, root.RawFragment = "", ""
	root.Scheme = strings.ToLower(root.Scheme)

	if root.Scheme == "" {
		return location{}, errors.New("the repository URL has no scheme, such as https://")
	}

	l := location{kind: kind(strings.ToLower(forced)), root: root}
	if l.kind == "" {
		l.kind = kind(root.Scheme)
		if root.Scheme == "https" {
			l.kind = kindHTTP
		}
	}
	if err := l.allow(root.Scheme, develop); err != nil {
		return location{}, err
	}
	if l.kind == kindHTTP || l.kind == kindFile {
		return l, nil
	}
	if err := l.splitIndex(); err != nil {
		return location{}, err
	}
	return l, l.readQuery()
}

// expand converts an address without a scheme, such as git@host:path, to a URL, and returns the kind of repository
// that it implies. expand returns any other text unchanged.
func expand(text string) (expanded, implied string, err error) {
	if strings.Contains(text, "://") {
		return text, "", nil
	}
	for _, host := range shorthands {
		rest, ok := strings.CutPrefix(text, host+"/")
		if !ok {
			continue
		}
		expanded, err := expandShorthand(host, rest)
		return expanded, string(kindGit), err
	}
	if scpForm.MatchString(text) {
		address, query, _ := strings.Cut(text, "?")
		host, file, _ := strings.Cut(address, ":")
		expanded := "ssh://" + host + "/" + scpPath + file
		if query != "" {
			expanded += "?" + query
		}
		return expanded, string(kindGit), nil
	}
	return text, "", nil
}

// scpPath is the first path segment of a URL that was converted from the form host:path. It means that the rest of the
// path is relative to the home directory of the user.
const scpPath = "~scp/"

func expandShorthand(host, rest string) (string, error) {
	address, query, _ := strings.Cut(rest, "?")
	parts := strings.SplitN(address, "/", 3)
	if len(parts) < 2 || parts[0] == "" || parts[1] == "" {
		return "", fmt.Errorf("addresses of %s must have the form %s/OWNER/REPOSITORY//PATH", host, host)
	}
	expanded := "https://" + host + "/" + parts[0] + "/" + strings.TrimSuffix(parts[1], ".git") + ".git"
	if len(parts) == 3 {
		expanded += "//" + strings.TrimPrefix(parts[2], "/")
	}
	if query != "" {
		expanded += "?" + query
	}
	return expanded, nil
}

// schemes are the schemes that the URL of a repository may have.
type schemes struct {
	always  []string
	develop []string // only in develop mode
}

// schemesOf contains the schemes for each kind of repository.
var schemesOf = map[kind]schemes{
	kindHTTP: {always: []string{"https"}, develop: []string{"http"}},
	kindS3:   {always: []string{"https"}, develop: []string{"http"}},
	kindGit:  {always: []string{"https", "ssh"}, develop: []string{"http", "file"}},
	kindHg:   {always: []string{"https"}, develop: []string{"http", "file"}},
	kindFile: {develop: []string{"file"}},
}

// allow returns an error if the scheme is not allowed for l.kind, or if the URL has no host. URLs with the scheme file
// need no host.
func (l *location) allow(scheme string, develop bool) error {
	allowed, ok := schemesOf[l.kind]
	if !ok {
		return unsupported(string(l.kind))
	}
	forDevelopers := slices.Contains(allowed.develop, scheme)
	switch {
	case forDevelopers && !develop:
		return fmt.Errorf("%w; only develop mode allows it", unsupported(scheme))
	case !forDevelopers && !slices.Contains(allowed.always, scheme):
		return unsupported(scheme)
	case scheme != "file" && l.root.Hostname() == "":
		return errors.New("the repository URL names no host")
	}
	return nil
}

func unsupported(scheme string) error {
	return fmt.Errorf("not supported scheme '%s' for addons repository", printable(scheme))
}

// splitIndex splits the path of root at two adjacent slashes. The first part stays the path of root, and the second
// part is stored in l.index.
func (l *location) splitIndex() error {
	root, index, ok := strings.Cut(l.root.Path, "//")
	if l.root.Scheme == "file" { // for example file:////repository//index
		trimmed := strings.TrimLeft(l.root.Path, "/")
		root, index, ok = strings.Cut(trimmed, "//")
		root = "/" + root
	}
	index = strings.Trim(index, "/")
	if !ok || index == "" {
		return errors.New("index path needs to be provided: add // and the path of the index to the address of the repository")
	}
	for segment := range strings.SplitSeq(index, "/") {
		if segment == "." || segment == ".." || segment == "" {
			return errors.New("the path of the index must not contain \".\", \"..\" or empty segments")
		}
	}
	l.index = index
	l.root.Path, l.root.RawPath = root, ""
	return nil
}

// readQuery moves the query parameters that this package defines, such as ref, from the query of root to fields of l.
func (l *location) readQuery() error {
	query, err := url.ParseQuery(l.root.RawQuery)
	if err != nil {
		return errors.New("the query of the repository URL is not valid")
	}
	take := func(name string) string {
		value := query.Get(name)
		query.Del(name)
		return value
	}
	switch l.kind {
	case kindGit:
		l.ref = take("ref")
		if depth := take("depth"); depth != "" {
			if n, err := strconv.Atoi(depth); err != nil || n < 0 {
				return errors.New("the parameter depth of the repository URL must be an integer of at least 0")
			}
		}
		if l.privateKey, err = readKey(take("sshkey")); err != nil {
			return err
		}
	case kindHg:
		l.ref = take("rev")
	case kindS3:
		l.s3 = s3Access{key: take("aws_access_key_id"), secret: take("aws_access_key_secret"), token: take("aws_access_token"), region: take("region")}
		if (l.s3.key == "") != (l.s3.secret == "") {
			return errors.New("the parameters aws_access_key_id and aws_access_key_secret of the repository URL must be set together")
		}
	case kindHTTP, kindFile:
	}
	if strings.HasPrefix(l.ref, "-") || strings.ContainsAny(l.ref, "\x00\n\r ") {
		return errors.New("the reference of the repository URL is not valid")
	}
	l.root.RawQuery = query.Encode()
	return nil
}

// readKey returns a private key in PEM format. The argument text is the key in PEM format, or the base64 encoding of
// it.
func readKey(text string) ([]byte, error) {
	if text == "" || strings.HasPrefix(text, "-----BEGIN ") {
		return []byte(text), nil
	}
	text = strings.NewReplacer(" ", "+", "\n", "", "\r", "", "=", "").Replace(text) // parsing a query turns each plus sign into a space
	key, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return nil, errors.New("the parameter sshkey of the repository URL must be a private key in base64")
	}
	return key, nil
}

// beside returns the URL of the file called name in the directory of the index, with the query and the user of the
// index URL.
func beside(index *url.URL, name string) *url.URL {
	u := *index
	dir := u.EscapedPath()
	dir = dir[:strings.LastIndexByte(dir, '/')+1]
	if dir == "" {
		dir = "/"
	}
	u.RawPath = dir + url.PathEscape(name)
	u.Path, _ = url.PathUnescape(u.RawPath)
	return &u
}

package source

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
)

// A gitRepository fetches the wanted commit of a git repository when the first file is needed. If the server cannot
// send this commit without its history, or accepts no request for it, the whole history is fetched. Files are read
// directly from the packfile, without a working tree. So no link, hook, submodule or configuration of the repository
// has an effect.
type gitRepository struct {
	fetcher  *Fetcher
	location location

	mu       sync.Mutex
	fetched  *pack
	commit   plumbing.Hash // the fetched commit, or the known commit if it is still the wanted one
	rootTree plumbing.Hash
}

// An uploadPack is a session with git-upload-pack on a server. The server first sends its references, and then answers
// one request for objects.
type uploadPack interface {
	references(ctx context.Context) (io.Reader, error)
	request(ctx context.Context, text []byte) (io.Reader, error)
	close()
}

func (f *Fetcher) connectGit(l location) uploadPack {
	switch l.root.Scheme {
	case "ssh":
		return &sshUploadPack{fetcher: f, location: l}
	case "file":
		return &localUploadPack{dir: l.root.Path}
	default:
		return &httpUploadPack{fetcher: f, url: l.root}
	}
}

func (g *gitRepository) index(ctx context.Context, known Validators) (*spool, Validators, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.fetch(ctx, known.Revision); err != nil || g.unchanged(known) {
		return nil, Validators{Revision: known.Revision}, wrap("while cloning the git repository", err)
	}
	content, err := g.read(g.location.index, g.fetcher.limits.Index)
	return content, Validators{Revision: g.commit.String()}, wrap("while getting index file", err)
}

func (g *gitRepository) read(name string, limit int64) (*spool, error) {
	e, err := g.fetched.find(g.rootTree, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, failed("file %q does not exist in the repository", name)
	case err != nil:
		return nil, err
	case !e.isFile():
		return nil, failed("%q in the repository is not a regular file", name)
	}
	data, err := g.fetched.object(e.hash, plumbing.BlobObject)
	if err != nil {
		return nil, err
	}
	to := g.fetcher.disk.newSpool("the index", limit)
	if _, err := to.Write(data); err != nil {
		to.Close()
		return nil, err
	}
	return to, nil
}

func (g *gitRepository) addon(ctx context.Context, name, version string, known Validators) (*spool, Validators, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.fetch(ctx, known.Revision); err != nil || g.unchanged(known) {
		return nil, Validators{Revision: known.Revision}, wrap("while cloning the git repository", err)
	}
	dir := g.location.join(name + "-" + version)
	e, err := g.fetched.find(g.rootTree, dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !e.isDir() {
		return nil, Validators{}, errMissing(dir)
	}
	if err != nil {
		return nil, Validators{}, err
	}
	to := g.fetcher.newPacker()
	content, err := to.finish(g.fetched.archive(ctx, g.rootTree, dir, to))
	return content, Validators{Revision: g.commit.String()}, err
}

func (g *gitRepository) unchanged(known Validators) bool {
	return known.Digest != "" && known.Revision == g.commit.String()
}

func (g *gitRepository) close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.fetched == nil {
		return nil
	}
	err := g.fetched.content.Close()
	g.fetched = nil
	return err
}

// fetch asks the server for the hash of the wanted commit, and fetches the commit if its hash is not the argument
// known. If an earlier call has fetched the commit, or has found that its hash equals known, fetch does nothing.
func (g *gitRepository) fetch(ctx context.Context, known string) error {
	if g.fetched != nil || known != "" && known == g.commit.String() {
		return nil
	}
	release, err := g.fetcher.commands.acquire(ctx, g.location.root.Host)
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, g.fetcher.limits.Command)
	defer cancel()
	server := g.fetcher.connectGit(g.location)
	defer server.close()
	stream, err := server.references(ctx)
	if err != nil {
		return err
	}
	refs, err := readReferences(stream, g.location.ref)
	if err != nil {
		return err
	}
	w, err := refs.want()
	if err != nil {
		return err
	}
	if w.commit.String() == known {
		g.commit = w.commit
		return nil
	}
	if stream, err = server.request(ctx, w.encode(refs.capabilities)); err != nil {
		return err
	}
	return g.receive(ctx, stream, w, refs.capabilities)
}

// receive reads the server's answer to the request w, and stores the commit and its packfile in g.
func (g *gitRepository) receive(ctx context.Context, stream io.Reader, w want, capabilities []string) error {
	content := g.fetcher.disk.newSpool("the repository", g.fetcher.limits.Repository)
	err := readAnswer(stream, w, capabilities, content)
	if err == nil {
		err = ctx.Err()
	}
	var p *pack
	if err == nil {
		p, err = g.fetcher.readPack(ctx, content)
	}
	if err != nil {
		content.Close()
		return err
	}
	commit, tree, err := p.commit(w)
	if err != nil {
		content.Close()
		return err
	}
	g.fetched, g.commit, g.rootTree = p, commit, tree
	return nil
}

// readPack calls the function readPack. It limits the number of concurrent calls, because parsing a packfile needs
// memory and CPU time.
func (f *Fetcher) readPack(ctx context.Context, content *spool) (*pack, error) {
	select {
	case f.packs <- struct{}{}:
		defer func() { <-f.packs }()
		return readPack(ctx, content, f.limits)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// commit returns the hashes of the wanted commit and of its root tree. It is an error if the commit is not in the
// packfile, or if several commits match.
func (p *pack) commit(w want) (commit, tree plumbing.Hash, err error) {
	commit = w.commit
	if commit.IsZero() { // a prefix
		for hash, i := range p.byHash {
			if p.kind(i) != plumbing.CommitObject || !strings.HasPrefix(hash.String(), w.prefix) {
				continue
			}
			if !commit.IsZero() {
				return commit, tree, failed("several commits begin with %s", w.prefix)
			}
			commit = hash
		}
		if commit.IsZero() {
			return commit, tree, errReference(w.prefix)
		}
	}
	data, err := p.object(commit, plumbing.CommitObject)
	if err != nil {
		return commit, tree, err
	}
	line, _, _ := bytes.Cut(data, []byte("\n"))
	hash, ok := strings.CutPrefix(string(line), "tree ")
	if !ok || !plumbing.IsHash(hash) {
		return commit, tree, errDamaged
	}
	return commit, plumbing.NewHash(hash), nil
}

// references contains the references of a server that the field ref can mean. ref is a branch, a tag, a full reference
// name, or the beginning of a commit hash.
type references struct {
	ref          string
	capabilities []string
	byName       map[string]plumbing.Hash // HEAD, and the full names that ref can mean; the commit of an annotated tag is under the name of the tag followed by ^{}
	tips         []plumbing.Hash          // if ref can begin a commit hash: the commits and tag objects to which branches and tags refer
	matching     plumbing.Hash            // a tip, or the commit of an annotated tag, whose hash begins with ref, if any
}

// commitPrefix matches a commit hash, or at least the first seven digits of one.
var commitPrefix = regexp.MustCompile(`^[0-9a-f]{7,40}$`)

func readReferences(stream io.Reader, ref string) (*references, error) {
	const maxBytes = 64 << 20 // for comparison: the list of references of a large repository on GitHub has 20 MiB
	bounded := &io.LimitedReader{R: stream, N: maxBytes}
	lines := pktline.NewScanner(bounded)
	refs := &references{ref: ref, byName: map[string]plumbing.Hash{}}
	for first := true; lines.Scan(); first = false {
		line := strings.TrimSuffix(string(lines.Bytes()), "\n")
		if first && strings.HasPrefix(line, "# service=") {
			if !lines.Scan() || len(lines.Bytes()) != 0 { // a flush packet must follow the line "# service="
				break
			}
			if !lines.Scan() {
				break
			}
			line = strings.TrimSuffix(string(lines.Bytes()), "\n")
		}
		if line == "" {
			return refs, nil
		}
		if err := refs.add(line); err != nil {
			return nil, err
		}
	}
	if bounded.N == 0 {
		return nil, invalid("the repository has too many references")
	}
	return nil, gitFailure(cmp.Or(lines.Err(), errEnded))
}

func (r *references) add(line string) error {
	line, capabilities, first := strings.Cut(line, "\x00")
	if first {
		r.capabilities = strings.Fields(capabilities)
		if slices.Contains(r.capabilities, "object-format=sha256") {
			return failed("repositories with SHA-256 objects are not supported")
		}
	}
	hash, name, ok := strings.Cut(line, " ")
	if ok && plumbing.IsHash(hash) {
		r.addWanted(hash, name)
		return nil
	}
	if strings.HasPrefix(line, "shallow ") || strings.HasPrefix(line, "version ") {
		return nil
	}
	return failed("the server does not speak the git protocol")
}

// addWanted stores a reference of the server if r.ref can mean it.
func (r *references) addWanted(hash, name string) {
	if name == "capabilities^{}" { // not a reference: the server sends this line for a repository without commits
		return
	}
	h := plumbing.NewHash(hash)
	bare := strings.TrimSuffix(name, "^{}")
	if bare == "HEAD" || r.ref != "" && slices.Contains(r.meanings(), bare) {
		r.byName[name] = h
	}
	isTip := strings.HasPrefix(bare, "refs/heads/") || strings.HasPrefix(bare, "refs/tags/")
	if !isTip || !commitPrefix.MatchString(r.ref) {
		return
	}
	if strings.HasPrefix(hash, r.ref) {
		r.matching = h
	}
	if bare == name {
		r.tips = append(r.tips, h)
	}
}

// meanings returns the full reference names that r.ref can mean, in the order in which git tries them.
func (r *references) meanings() []string {
	return []string{r.ref, "refs/" + r.ref, "refs/tags/" + r.ref, "refs/heads/" + r.ref}
}

// A want describes the objects that a request asks the server for.
type want struct {
	objects []plumbing.Hash
	commit  plumbing.Hash // zero if only the field prefix is set
	prefix  string
	history bool // whether all commits are requested, not only one
}

func errReference(ref string) error {
	return failed("reference %q does not exist in the repository", ref)
}

// want returns the request for the commit that r.ref means. want returns an error if the server has no such reference.
func (r *references) want() (want, error) {
	if r.ref == "" {
		head, ok := r.byName["HEAD"]
		if !ok {
			return want{}, failed("the repository has no default branch; add ?ref= with a branch or tag")
		}
		return want{objects: []plumbing.Hash{head}, commit: head}, nil
	}
	for _, name := range r.meanings() {
		hash, ok := r.byName[name]
		if !ok {
			continue
		}
		commit, peeled := r.byName[name+"^{}"]
		if !peeled {
			commit = hash
		}
		return want{objects: []plumbing.Hash{hash}, commit: commit}, nil
	}
	if !commitPrefix.MatchString(r.ref) {
		return want{}, errReference(r.ref)
	}
	if !r.matching.IsZero() && slices.Contains(r.tips, r.matching) {
		return want{objects: []plumbing.Hash{r.matching}, commit: r.matching}, nil
	}
	if plumbing.IsHash(r.ref) && (slices.Contains(r.capabilities, "allow-reachable-sha1-in-want") || slices.Contains(r.capabilities, "allow-any-sha1-in-want")) {
		commit := plumbing.NewHash(r.ref)
		return want{objects: []plumbing.Hash{commit}, commit: commit}, nil
	}
	if len(r.tips) == 0 {
		return want{}, errReference(r.ref)
	}
	// The server accepts only requests for tips of branches and tags. So all commits are requested, and the wanted
	// commit is searched for among them.
	return want{objects: r.tips, prefix: r.ref, history: true}, nil
}

// encode returns the text of the request. The argument server lists the capabilities of the server.
func (w want) encode(server []string) []byte {
	capabilities := []string{"agent=addon-operator"}
	for _, name := range []string{"ofs-delta", "no-progress", w.sideband(server)} {
		if slices.Contains(server, name) {
			capabilities = append(capabilities, name)
		}
	}
	shallow := w.shallow(server)
	if shallow {
		capabilities = append(capabilities, "shallow")
	}
	var out bytes.Buffer
	encoder := pktline.NewEncoder(&out) // writing to a buffer does not fail, and the lines are short
	for i, hash := range slices.Compact(slices.SortedFunc(slices.Values(w.objects), func(a, b plumbing.Hash) int { return bytes.Compare(a[:], b[:]) })) {
		line := "want " + hash.String()
		if i == 0 {
			line += " " + strings.Join(capabilities, " ")
		}
		_ = encoder.EncodeString(line + "\n")
	}
	if shallow {
		_ = encoder.EncodeString("deepen 1\n")
	}
	_ = encoder.Flush()
	_ = encoder.EncodeString("done\n")
	return out.Bytes()
}

func (w want) shallow(server []string) bool {
	return !w.history && slices.Contains(server, "shallow")
}

// sideband returns the name of the capability with which the server can send errors together with the packfile. It
// returns "" if the server has no such capability.
func (w want) sideband(server []string) string {
	for _, name := range []string{"side-band-64k", "side-band"} {
		if slices.Contains(server, name) {
			return name
		}
	}
	return ""
}

// readAnswer reads the server's answer to the request w, and writes the packfile in the answer to the given spool. The
// argument server lists the capabilities of the server.
func readAnswer(stream io.Reader, w want, server []string, to *spool) error {
	lines := pktline.NewScanner(stream)
	if w.shallow(server) {
		for lines.Scan() && len(lines.Bytes()) > 0 {
			if !bytes.HasPrefix(lines.Bytes(), []byte("shallow ")) && !bytes.HasPrefix(lines.Bytes(), []byte("unshallow ")) {
				return failed("the server does not speak the git protocol")
			}
		}
	}
	if lines.Err() != nil || !lines.Scan() {
		return gitFailure(cmp.Or(lines.Err(), errEnded))
	}
	if line := lines.Bytes(); !bytes.HasPrefix(line, []byte("NAK")) && !bytes.HasPrefix(line, []byte("ACK")) {
		return failed("the server does not speak the git protocol")
	}
	switch w.sideband(server) {
	case "side-band-64k":
		stream = sideband.NewDemuxer(sideband.Sideband64k, stream)
	case "side-band":
		stream = sideband.NewDemuxer(sideband.Sideband, stream)
	}
	_, err := io.Copy(to, stream)
	return gitFailure(err)
}

// gitFailure returns an error with a clear text if err is an error of the git protocol. gitFailure returns any other
// err unchanged.
func gitFailure(err error) error {
	if line, ok := errors.AsType[*pktline.ErrorLine](err); ok {
		return failed("the server says %q", line.Text)
	}
	if errors.Is(err, pktline.ErrInvalidPktLen) {
		return failed("the server does not speak the git protocol")
	}
	return err
}

var errEnded = fmt.Errorf("the conversation ended: %w", io.ErrUnexpectedEOF)

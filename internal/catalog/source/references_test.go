package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
)

// hashOf returns a hash that consists of one repeated hexadecimal digit.
func hashOf(digit string) plumbing.Hash { return plumbing.NewHash(strings.Repeat(digit, 40)) }

// packets returns lines as packets of the git protocol; an empty line is a flush packet.
func packets(lines ...string) string {
	var out strings.Builder
	for _, line := range lines {
		if line == "" {
			out.WriteString("0000")
			continue
		}
		fmt.Fprintf(&out, "%04x%s", len(line)+4, line)
	}
	return out.String()
}

// advertised returns the references that a server advertises, with capabilities.
func advertised(t *testing.T, ref, capabilities string, lines ...string) *references {
	t.Helper()
	sent := []string{}
	for i, line := range lines {
		if i == 0 {
			line += "\x00" + capabilities
		}
		sent = append(sent, line+"\n")
	}
	refs, err := readReferences(strings.NewReader(packets(append(sent, "")...)), ref)
	if err != nil {
		t.Fatal(err)
	}
	return refs
}

func TestAReferenceIsResolvedInTheOrderOfGit(t *testing.T) {
	t.Parallel()
	a, b, c, d := hashOf("a"), hashOf("b"), hashOf("c"), hashOf("d")
	lines := []string{
		a.String() + " HEAD",
		a.String() + " refs/heads/main",
		b.String() + " refs/heads/v1",
		b.String() + " refs/heads/tags/v2",
		d.String() + " refs/pull/7/head",
		c.String() + " refs/tags/v1",
		d.String() + " refs/tags/v1^{}",
		c.String() + " refs/tags/v2",
	}
	one := func(wanted, commit plumbing.Hash) want {
		return want{objects: []plumbing.Hash{wanted}, commit: commit}
	}
	for name, test := range map[string]struct {
		ref, capabilities string
		want              want
	}{
		"no reference is the default branch":               {"", "", one(a, a)},
		"HEAD is the default branch":                       {"HEAD", "", one(a, a)},
		"name of a branch":                                 {"main", "", one(a, a)},
		"a tag has precedence over a branch":               {"v1", "", one(c, d)},
		"branch with the name of a tag":                    {"heads/v1", "", one(b, b)},
		"full name of a branch":                            {"refs/heads/v1", "", one(b, b)},
		"an annotated tag is fetched for its commit":       {"refs/tags/v1", "", one(c, d)},
		"a tag in refs has precedence over a branch":       {"tags/v2", "", one(c, c)},
		"reference that is no branch and no tag":           {"refs/pull/7/head", "", one(d, d)},
		"commit at the tip of a branch":                    {b.String(), "", one(b, b)},
		"beginning of the commit at a tip":                 {"aaaaaaa", "", one(a, a)},
		"any commit if the server sends any":               {hashOf("e").String(), "allow-any-sha1-in-want", one(hashOf("e"), hashOf("e"))},
		"any commit if the server sends reachable ones":    {hashOf("e").String(), "shallow allow-reachable-sha1-in-want", one(hashOf("e"), hashOf("e"))},
		"other commit is searched in the whole history":    {hashOf("e").String(), "", want{objects: []plumbing.Hash{a, b, b, c, c}, prefix: hashOf("e").String(), history: true}},
		"beginning of a commit is searched in the history": {"eeeeeee", "allow-any-sha1-in-want", want{objects: []plumbing.Hash{a, b, b, c, c}, prefix: "eeeeeee", history: true}},
		// The commit of an annotated tag is not a tip, so a server rejects a request for this commit.
		"commit of an annotated tag": {"ddddddd", "", want{objects: []plumbing.Hash{a, b, b, c, c}, prefix: "ddddddd", history: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := advertised(t, test.ref, test.capabilities, lines...).want()
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got.objects, test.want.objects) || got.commit != test.want.commit || got.prefix != test.want.prefix || got.history != test.want.history {
				t.Errorf("got  %v\nwant %v", got, test.want)
			}
		})
	}
}

func TestAReferenceThatTheServerDoesNotHaveIsNamed(t *testing.T) {
	t.Parallel()
	a := hashOf("a").String()
	for name, test := range map[string]struct {
		ref   string
		lines []string
		want  string
	}{
		"unknown branch":                 {"nothing", []string{a + " HEAD", a + " refs/heads/main"}, `reference "nothing" does not exist in the repository`},
		"hash that is too short":         {"aaaaaa", []string{a + " refs/heads/main"}, `reference "aaaaaa" does not exist in the repository`},
		"hash in capital letters":        {"AAAAAAA", []string{a + " refs/heads/main"}, `reference "AAAAAAA" does not exist in the repository`},
		"commit without branches":        {"aaaaaaa", []string{a + " HEAD", a + " refs/pull/1/head"}, `reference "aaaaaaa" does not exist in the repository`},
		"no default branch":              {"", []string{a + " refs/heads/main"}, "the repository has no default branch; add ?ref= with a branch or tag"},
		"repository without any commits": {"", []string{hashOf("0").String() + " capabilities^{}"}, "the repository has no default branch; add ?ref= with a branch or tag"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := advertised(t, test.ref, "shallow", test.lines...).want()
			if err == nil || err.Error() != test.want {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

func TestReferencesAreReadFromHTTPAndFromSSH(t *testing.T) {
	t.Parallel()
	head := hashOf("a").String() + " HEAD\x00shallow  side-band-64k agent=git/2\n"
	for name, stream := range map[string]string{
		"ssh":                         packets(head, ""),
		"ssh, protocol 1":             packets("version 1\n", head, ""),
		"http":                        packets("# service=git-upload-pack\n", "", head, ""),
		"shallow server":              packets(head, "shallow "+hashOf("b").String()+"\n", ""),
		"lines without a line break":  packets(strings.TrimSuffix(head, "\n"), ""),
		"bytes after the flush stays": packets(head, "") + "rest",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refs, err := readReferences(strings.NewReader(stream), "")
			if err != nil {
				t.Fatal(err)
			}
			if want := []string{"shallow", "side-band-64k", "agent=git/2"}; !slices.Equal(refs.capabilities, want) {
				t.Errorf("the capabilities are %q, want %q", refs.capabilities, want)
			}
			if len(refs.byName) != 1 || refs.byName["HEAD"] != hashOf("a") {
				t.Errorf("the references are %v", refs.byName)
			}
		})
	}
}

func TestOnlyPossibleMeaningsOfAReferenceAreStored(t *testing.T) {
	t.Parallel()
	lines := []string{hashOf("a").String() + " HEAD"}
	for i := range 100 {
		lines = append(lines, hashOf("b").String()+fmt.Sprintf(" refs/heads/b%d", i))
	}
	refs := advertised(t, "b7", "", append(lines, hashOf("c").String()+" refs/tags/b7^{}")...)
	if len(refs.byName) != 3 || refs.byName["HEAD"] != hashOf("a") || refs.byName["refs/heads/b7"] != hashOf("b") || refs.byName["refs/tags/b7^{}"] != hashOf("c") {
		t.Errorf("got %v", refs.byName)
	}
	if len(refs.tips) != 0 {
		t.Errorf("tips of a reference that cannot be a commit: %v", refs.tips)
	}
}

func TestDamagedReferencesAreRefused(t *testing.T) {
	t.Parallel()
	const noGit = "the server does not speak the git protocol"
	const early = "the server closed the connection too early"
	head := hashOf("a").String() + " HEAD\x00shallow\n"
	for name, test := range map[string]struct{ stream, want string }{
		"nothing":                      {"", early},
		"no flush packet at the end":   {packets(head), early},
		"cut packet":                   {packets(head)[:20], early},
		"only the line of the service": {packets("# service=git-upload-pack\n"), early},
		"nothing after the service":    {packets("# service=git-upload-pack\n", ""), early},
		"no flush after the service":   {packets("# service=git-upload-pack\n", head, ""), early},
		"HTML":                         {"<html><body>Sign in</body></html>", noGit},
		"packet of HTML":               {packets("<html>"), noGit},
		"hash that is too short":       {packets("aaaa HEAD\n", ""), noGit},
		"no name":                      {packets(hashOf("a").String()+"\n", ""), noGit},
		"SHA-256":                      {packets(hashOf("a").String()+" HEAD\x00object-format=sha256\n", ""), "repositories with SHA-256 objects are not supported"},
		"error of the server":          {packets("ERR no such repository\n"), `the server says "no such repository"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := readReferences(strings.NewReader(test.stream), "main")
			if err == nil || describe(err) != test.want {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

// endless repeats a text.
type endless struct {
	text string
	at   int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.text[e.at:])
	e.at = (e.at + n) % len(e.text)
	return n, nil
}

func TestEndlessReferencesAreRefused(t *testing.T) {
	t.Parallel()
	line := hashOf("a").String() + " refs/heads/" + strings.Repeat("x", 60000) + "\n"
	_, err := readReferences(&endless{text: packets(line)}, "main")
	if plain, ok := errors.AsType[*plainError](err); !ok || !plain.loading || plain.text != "the repository has too many references" {
		t.Errorf("got %v", err)
	}
}

func TestARequestNamesEachObjectOnceAndOnlyCapabilitiesOfTheServer(t *testing.T) {
	t.Parallel()
	a, b := hashOf("a").String(), hashOf("b").String()
	one := want{objects: []plumbing.Hash{hashOf("a")}, commit: hashOf("a")}
	history := want{objects: []plumbing.Hash{hashOf("b"), hashOf("a"), hashOf("b")}, prefix: "eeeeeee", history: true}
	for name, test := range map[string]struct {
		want   want
		server string
		text   string
	}{
		"old server": {one, "thin-pack multi_ack", packets("want "+a+" agent=addon-operator\n", "", "done\n")},
		"new server": {
			one, "side-band side-band-64k ofs-delta shallow no-progress",
			packets("want "+a+" agent=addon-operator ofs-delta no-progress side-band-64k shallow\n", "deepen 1\n", "", "done\n"),
		},
		"server with the small side band": {one, "side-band", packets("want "+a+" agent=addon-operator side-band\n", "", "done\n")},
		// All commits are needed, so the request must not be shallow.
		"history": {history, "shallow ofs-delta", packets("want "+a+" agent=addon-operator ofs-delta\n", "want "+b+"\n", "", "done\n")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := string(test.want.encode(strings.Fields(test.server))); got != test.text {
				t.Errorf("got  %q\nwant %q", got, test.text)
			}
		})
	}
}

// band returns a packet of a side band: 1 has data, 2 messages, and 3 errors.
func band(number byte, text string) string { return packets(string(number) + text) }

func TestThePackfileOfAnAnswerIsReadInEachForm(t *testing.T) {
	t.Parallel()
	shallow := "shallow " + hashOf("a").String() + "\n"
	one := want{commit: hashOf("a")}
	for name, test := range map[string]struct {
		want           want
		server, stream string
	}{
		"plain":                     {one, "", packets("NAK\n") + "PACKbytes"},
		"acknowledged":              {one, "", packets("ACK "+hashOf("a").String()+"\n") + "PACKbytes"},
		"shallow":                   {one, "shallow", packets(shallow, "", "NAK\n") + "PACKbytes"},
		"shallow without commits":   {one, "shallow", packets("", "NAK\n") + "PACKbytes"},
		"unshallow":                 {one, "shallow", packets("un"+shallow, "", "NAK\n") + "PACKbytes"},
		"history of a shallow one":  {want{history: true}, "shallow", packets("NAK\n") + "PACKbytes"},
		"side band with messages":   {one, "side-band", packets("NAK\n") + band(2, "Counting") + band(1, "PACK") + band(2, "Done") + band(1, "bytes") + packets("")},
		"large packets of the band": {one, "side-band side-band-64k", packets("NAK\n") + band(1, "PACKbytes") + packets("")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := diskOf(t, 0).newSpool("the repository", 1<<20)
			if err := readAnswer(strings.NewReader(test.stream), test.want, strings.Fields(test.server), to); err != nil {
				t.Fatal(err)
			}
			if got := textOf(t, to); got != "PACKbytes" {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestAnAnswerWithoutAPackfileIsRefused(t *testing.T) {
	t.Parallel()
	const noGit = "the server does not speak the git protocol"
	const early = "the server closed the connection too early"
	for name, test := range map[string]struct{ server, stream, want string }{
		"nothing":                       {"", "", early},
		"HTML":                          {"", "<html>", noGit},
		"other packet":                  {"", packets("PACK"), noGit},
		"error":                         {"", packets("ERR upload-pack: not our ref\n"), `the server says "upload-pack: not our ref"`},
		"end before NAK":                {"shallow", packets(""), early},
		"other packet before NAK":       {"shallow", packets("NAK\n", ""), noGit},
		"error before NAK":              {"shallow", packets("ERR gone\n"), `the server says "gone"`},
		"band ends without its packets": {"side-band-64k", packets("NAK\n") + "00ff\x01PACK", early},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := diskOf(t, 0).newSpool("the repository", 1<<20)
			err := readAnswer(strings.NewReader(test.stream), want{}, strings.Fields(test.server), to)
			if err == nil || describe(err) != test.want {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

func TestAnErrorInTheSideBandEndsTheAnswer(t *testing.T) {
	t.Parallel()
	to := diskOf(t, 0).newSpool("the repository", 1<<20)
	stream := packets("NAK\n") + band(1, "PACK") + band(3, "repository is corrupt") + band(1, "bytes")
	err := readAnswer(strings.NewReader(stream), want{}, []string{"side-band"}, to)
	if err == nil || !strings.Contains(err.Error(), "repository is corrupt") {
		t.Errorf("got %v", err)
	}
}

func TestAnAnswerBeyondTheLimitOfTheRepositoryIsRefused(t *testing.T) {
	t.Parallel()
	to := diskOf(t, 0).newSpool("the repository", 100)
	err := readAnswer(io.MultiReader(strings.NewReader(packets("NAK\n")), bytes.NewReader(make([]byte, 101))), want{}, nil, to)
	if err == nil || err.Error() != "the repository is larger than the limit of 100 bytes" {
		t.Errorf("got %v", err)
	}
}

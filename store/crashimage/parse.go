package crashimage

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// A kind is the kind of an operation.
type kind uint8

const (
	write    kind = iota + 1 // writes data at offset of the file
	truncate                 // sets the length of the file to offset
	extend                   // makes the file at least offset bytes long
	create                   // makes an empty file if none exists; offset is 1 if the call empties an existing file
	link                     // gives the file a second name: the one in the field other
	rename                   // changes the name of the file to the one in the field other
	remove                   // removes the name of the file
	syncFile                 // makes earlier changes of the file durable
	syncDir                  // makes earlier changes of names durable
	mark                     // appends data, one line, to the file of marks
)

// An operation is one system call that changes the directory or makes changes durable.
type operation struct {
	kind   kind
	name   string // name of the file when the call began, relative to the directory
	other  string
	offset int64
	data   []byte
	// returned is the number of operations that had begun when this one returned, including itself.
	returned int
}

// A parser reads the lines that strace prints.
type parser struct {
	dir     string
	ops     []operation
	offsets map[string]int64 // position of the next write without an offset, by descriptor
	began   map[string]begun // calls that have not returned yet, by thread
}

// begun is the state of a system call that has begun and has not returned.
type begun struct {
	line string
	op   int // index of its operation; -1 if it changes nothing
}

func newParser(dir string) *parser {
	return &parser{dir: dir, offsets: map[string]int64{}, began: map[string]begun{}}
}

var (
	callLine    = regexp.MustCompile(`^(\d+) +(\w+)\((.*)\) += (-?\d+|\?)(.*)$`)
	resumedLine = regexp.MustCompile(`^(\d+) +<\.\.\. \w+ resumed>(.*)$`)
	// otherLine matches the line of a signal, of the end of a thread, or of a call that strace could
	// not read, because the process ended before the kernel carried the call out.
	otherLine = regexp.MustCompile(`^\d+ +(\+\+\+ |--- |\?+\(|<\.\.\. \?+ resumed>)`)
	// unfinished matches the end of a line about a call that has not returned when another thread
	// makes a call, or when the process ends.
	unfinished = regexp.MustCompile(` <(unfinished|detached) \.\.\.>$`)
)

// line parses one line of the trace.
func (p *parser) line(line string) error {
	if otherLine.MatchString(line) {
		return nil
	}
	if end := unfinished.FindStringIndex(line); end != nil {
		return p.begin(line[:end[0]])
	}
	if m := resumedLine.FindStringSubmatch(line); m != nil {
		return p.resume(m[1], m[2])
	}
	op, err := p.call(line)
	if op != nil {
		op.returned = len(p.ops) + 1
		p.ops = append(p.ops, *op)
	}
	return err
}

// begin adds the operation of a call that has begun and has not returned. The kernel may carry out the call at any time
// until the call returns.
func (p *parser) begin(line string) error {
	thread, _, _ := strings.Cut(line, " ")
	call := begun{line, -1}
	op, err := p.call(line + ") = 0") // assumes success; resume returns an error if the call fails
	if op != nil {
		op.returned = math.MaxInt
		call.op = len(p.ops)
		p.ops = append(p.ops, *op)
	}
	p.began[thread] = call
	return err
}

// resume completes the operation of a thread's call, because the call has returned. rest is the end of its line.
func (p *parser) resume(thread, rest string) error {
	call := p.began[thread]
	delete(p.began, thread)
	whole := callLine.FindStringSubmatch(call.line + rest)
	switch {
	case whole == nil:
		return fmt.Errorf("cannot read %.200q", call.line+rest)
	case call.op < 0:
		if op, err := p.call(call.line + rest); op != nil || err != nil {
			return errors.Join(err, fmt.Errorf("the line that begins call %s does not show what it changes", whole[2]))
		}
	case p.ops[call.op].kind == remove && strings.HasPrefix(whole[4], "-"):
		p.ops[call.op] = operation{returned: len(p.ops)} // a removal that fails changes nothing
	case whole[4] == "?" || strings.HasPrefix(whole[4], "-"):
		return fmt.Errorf("%s failed while another call was running, which the model does not support:%s", whole[2], whole[5])
	default:
		op := &p.ops[call.op]
		op.returned = len(p.ops)
		if op.kind == create {
			p.offsets[whole[4]] = 0
		}
		if op.kind == write && whole[4] != strconv.Itoa(len(op.data)) {
			return fmt.Errorf("%s of %d bytes wrote %s, which the model does not support", whole[2], len(op.data), whole[4])
		}
	}
	return nil
}

// call returns the operation of a call; nil if it changes nothing in the directory.
func (p *parser) call(line string) (*operation, error) {
	m := callLine.FindStringSubmatch(line)
	if m == nil {
		return nil, fmt.Errorf("cannot read %.200q", line)
	}
	name, result := m[2], m[4]
	args, err := arguments(m[3])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if result == "?" || strings.HasPrefix(result, "-") {
		return nil, nil //nolint:nilnil // the call changed nothing
	}
	if name == "openat" || name == "open" || name == "creat" {
		return p.opened(name, args, result)
	}
	inside := false
	for _, a := range args {
		_, of := p.inside(a.path)
		inside = inside || of
	}
	if !inside {
		return nil, nil //nolint:nilnil // the call is about a file outside of the directory
	}
	op, err := p.change(name, args)
	if op != nil && op.kind == write && result != strconv.Itoa(len(op.data)) && result != "0" {
		return nil, fmt.Errorf("%s of %d bytes wrote %s, which the model does not support", name, len(op.data), result)
	}
	return op, err
}

// opened returns the operation of a call that opens a file.
func (p *parser) opened(call string, args []argument, result string) (*operation, error) {
	if call != "openat" || len(args) < 3 {
		return nil, fmt.Errorf("call %s is not known", call)
	}
	file, inside := p.inside(args[1].path)
	if !inside || file == "." {
		return nil, nil //nolint:nilnil // the file is outside of the directory
	}
	p.offsets[result] = 0
	flags := args[2].text
	switch {
	case file == marksName:
	case strings.Contains(flags, "O_TRUNC"):
		// If the file exists, the call empties it.
		return &operation{kind: create, name: file, offset: 1}, nil
	case strings.Contains(flags, "O_CREAT"):
		return &operation{kind: create, name: file}, nil
	}
	return nil, nil //nolint:nilnil // the call changes nothing
}

// naming is a map of the system calls that give a file a name, with the kind of each call.
var naming = map[string]kind{"linkat": link, "renameat": rename, "renameat2": rename}

// change returns the operation of a call about the directory or one of its files.
func (p *parser) change(call string, args []argument) (*operation, error) {
	file, _ := p.inside(args[0].path)
	switch call {
	case "write":
		data := args[1].data
		if file == marksName {
			return &operation{kind: mark, data: data}, nil
		}
		at := p.offsets[args[0].text]
		p.offsets[args[0].text] += int64(len(data))
		return &operation{kind: write, name: file, offset: at, data: data}, nil
	case "pwrite64":
		return &operation{kind: write, name: file, offset: args[3].number(), data: args[1].data}, nil
	case "ftruncate":
		return &operation{kind: truncate, name: file, offset: args[1].number()}, nil
	case "fallocate":
		if args[1].number() != 0 {
			break
		}
		return &operation{kind: extend, name: file, offset: args[2].number() + args[3].number()}, nil
	case "lseek":
		if args[2].text != "SEEK_SET" {
			break
		}
		p.offsets[args[0].text] = args[1].number()
		return nil, nil //nolint:nilnil // the call changes nothing
	case "fsync", "fdatasync":
		if file == "." {
			return &operation{kind: syncDir}, nil
		}
		return &operation{kind: syncFile, name: file}, nil
	case "linkat", "renameat", "renameat2":
		from, inside := p.inside(args[1].path)
		to, both := p.inside(args[3].path)
		if inside && both {
			return &operation{kind: naming[call], name: from, other: to}, nil
		}
	case "unlinkat":
		file, _ := p.inside(args[1].path)
		return &operation{kind: remove, name: file}, nil
	}
	return nil, fmt.Errorf("call %s of a file of the directory is not known", call)
}

// inside returns the name of path in the directory; "." for the directory itself.
func (p *parser) inside(path string) (name string, ok bool) {
	if path == p.dir {
		return ".", true
	}
	if filepath.Dir(path) != p.dir {
		return "", false
	}
	return filepath.Base(path), true
}

// An argument is an argument of a system call in the trace.
type argument struct {
	text string // as strace writes it, without the path of a descriptor; empty for a string
	path string // path of a descriptor, or the value of a string
	data []byte // the value of a string
}

// number returns the argument as a number; -1 if it is not a number.
func (a argument) number() int64 {
	n, err := strconv.ParseInt(a.text, 0, 64)
	if err != nil {
		return -1
	}
	return n
}

// arguments splits the arguments of a call.
func arguments(s string) (args []argument, err error) {
	for s != "" {
		s = strings.TrimPrefix(strings.TrimPrefix(s, ","), " ")
		var a argument
		if quoted, ok := strings.CutPrefix(s, `"`); ok {
			text, rest, closed := strings.Cut(quoted, `"`)
			if !closed || strings.HasPrefix(rest, "...") {
				return nil, errors.New("a string was cut off")
			}
			if a.data, err = hex.DecodeString(strings.ReplaceAll(text, `\x`, "")); err != nil {
				return nil, err
			}
			a.path, s = string(a.data), rest
		} else {
			text, _, _ := strings.Cut(s, ",")
			s = s[len(text):]
			if fd, path, ok := strings.Cut(text, "<"); ok {
				path, _, _ = strings.Cut(path, ">")
				b, err := hex.DecodeString(strings.ReplaceAll(path, `\x`, ""))
				if err != nil {
					return nil, err
				}
				text, a.path = fd, string(b)
			}
			a.text = text
		}
		args = append(args, a)
	}
	return args, nil
}

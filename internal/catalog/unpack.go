package catalog

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"unicode/utf8"

	"addon-operator/internal/tree"
)

// Limits has the maximum number and the maximum sizes of the files of an addon.
type Limits struct {
	// File is the maximum size of one file in bytes, and Total is the maximum total size of all files.
	File, Total int64
	// Entries is the maximum number of files and directories.
	Entries int
}

// DefaultLimits are the limits that the operator uses. Real addons are far smaller, because Helm cannot install a
// chart of more than about 1 MiB.
var DefaultLimits = Limits{File: 5 << 20, Total: 32 << 20, Entries: 5000}

const (
	// tarOverhead is the maximum number of bytes that an entry of an archive may have besides its data: its header,
	// padding, and extended headers with long names.
	tarOverhead = 4 << 10
	// maxDepth is the maximum number of directories in the path of a file.
	maxDepth = 32
)

// Unpack reads a gzipped tar archive into memory, and returns its files. Unpack returns an error, and no files, if the
// archive is damaged, exceeds a limit, contains links or devices, has two files with the same name, or has names that
// lead out of the archive.
func Unpack(ctx context.Context, archive io.Reader, limits Limits) (fs.FS, error) {
	files, err := unpack(&stoppable{stopped: ctx.Err, r: archive}, limits)
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("unpacking the archive was stopped: %w", context.Cause(ctx))
	}
	if err != nil {
		return nil, err
	}
	return files, nil
}

// unpack does the same as [Unpack], but cannot be stopped.
func unpack(archive io.Reader, limits Limits) (*memory, error) {
	files, err := readArchive(archive, limits)
	switch {
	case err == nil:
		return files, nil
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return nil, errors.New("archive is truncated; pack it again")
	case errors.Is(err, gzip.ErrHeader):
		return nil, errors.New("archive is not in gzip format; pack it with tar -czf")
	case errors.Is(err, gzip.ErrChecksum), errors.Is(err, tar.ErrHeader):
		return nil, fmt.Errorf("archive is damaged (%w); pack it again with tar -czf", err)
	default:
		return nil, err
	}
}

func readArchive(archive io.Reader, limits Limits) (*memory, error) {
	buffered := bufio.NewReader(archive)
	if magic, err := buffered.Peek(2); err == nil && !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return nil, gzip.ErrHeader // gzip would return another error if archive is shorter than a gzip header
	}
	unzipped, err := gzip.NewReader(buffered)
	if err != nil {
		return nil, err
	}
	defer unzipped.Close()
	// The unpacker limits only the data of the entries. This reader also limits the headers, and the padding at the
	// end.
	whole := &bounded{r: unzipped, left: limits.Total + int64(limits.Entries)*tarOverhead, err: errTotal(limits)}
	u := unpacker{limits: limits, left: limits.Total, files: &memory{}}
	for entries := tar.NewReader(whole); ; {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = u.add(header, entries)
		}
		if err != nil {
			return nil, err
		}
	}
	// Read to the end of the stream, because only the checksum there shows that the archive is complete and undamaged.
	if _, err := io.Copy(io.Discard, whole); err != nil {
		return nil, err
	}
	return u.files, nil
}

func errTotal(limits Limits) error {
	return fmt.Errorf("archive expands to more than the limit of %d bytes", limits.Total)
}

// An unpacker adds the entries of an archive to files.
type unpacker struct {
	limits  Limits
	left    int64
	entries int
	files   *memory
}

func (u *unpacker) add(header *tar.Header, data io.Reader) error {
	if header.Typeflag == tar.TypeXGlobalHeader {
		return nil // the command "git archive" adds this entry, which is not a file
	}
	if u.entries++; u.entries > u.limits.Entries {
		return fmt.Errorf("archive has more than the limit of %d files and directories", u.limits.Entries)
	}
	name, err := entryName(header.Name)
	if err != nil {
		return err
	}
	switch header.Typeflag {
	case tar.TypeDir:
		_, err = u.files.mkdir(name)
	case tar.TypeReg:
		err = u.addFile(name, header.Size, data)
	default:
		err = errors.New("it is a link, a device or of another special type; pack regular files and directories only (tar -h follows links)")
	}
	if err != nil {
		return fmt.Errorf("archive entry %q: %w", tree.Excerpt(header.Name), err)
	}
	return nil
}

func (u *unpacker) addFile(name string, size int64, data io.Reader) error {
	if size > u.limits.File {
		return fmt.Errorf("file has %d bytes, more than the limit of %d", size, u.limits.File)
	}
	if u.left -= size; u.left < 0 {
		return errTotal(u.limits)
	}
	// Allocate only a little memory in advance, because the header can announce more data than the archive has.
	const inAdvance = 64 << 10
	buffer := bytes.NewBuffer(make([]byte, 0, min(size, inAdvance)))
	if _, err := io.Copy(buffer, data); err != nil {
		return err
	}
	return u.files.write(name, buffer.Bytes())
}

// entryName returns the cleaned path of an archive entry whose name is raw. entryName returns an error if the name
// leads out of the archive or is not a valid path.
func entryName(raw string) (string, error) {
	name := path.Clean(strings.TrimPrefix(raw, "./"))
	switch {
	case raw == "", path.IsAbs(raw), !utf8.ValidString(raw), strings.ContainsAny(raw, "\\\x00"):
	case strings.Contains("/"+raw+"/", "/../"):
	case strings.Count(name, "/") > maxDepth:
		return "", fmt.Errorf("archive entry %q: path has more than the limit of %d directories", tree.Excerpt(raw), maxDepth)
	case fs.ValidPath(name):
		return name, nil
	}
	return "", fmt.Errorf("archive entry %q: path must be relative, with slashes and without parent directories", tree.Excerpt(raw))
}

// stoppable is a reader of r. Before each read it calls the function in the field stopped. If that function returns
// an error, Read returns the same error and reads nothing. A read of r that is blocked is not interrupted.
type stoppable struct {
	stopped func() error
	r       io.Reader
}

func (s *stoppable) Read(p []byte) (int, error) {
	if err := s.stopped(); err != nil {
		return 0, err
	}
	return s.r.Read(p)
}

// bounded is a reader of r. If r has more bytes than the initial value of the field left, Read returns the error in the
// field err.
type bounded struct {
	r    io.Reader
	left int64
	err  error
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, b.err
	}
	return n, err
}

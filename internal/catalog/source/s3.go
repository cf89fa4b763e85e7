package source

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"io"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/minio/minio-go/v7/pkg/s3utils"
	"github.com/minio/minio-go/v7/pkg/signer"

	"addon-operator/internal/catalog"
)

// An s3Repository reads a repository from a bucket on S3 or on a compatible server. If the URL has no credentials, its
// requests are anonymous.
type s3Repository struct {
	fetcher *Fetcher
	access  s3Access
	server  *url.URL // URL of the server, with the path of the bucket unless the host names the bucket
	indexAt string   // key of the object with the index

	mu     sync.Mutex
	region string // region of the bucket: that of the URL, or a guess, until the server reports another one
}

var (
	// bucketHost matches host names of AWS that begin with the name of the bucket.
	bucketHost = regexp.MustCompile(`^(?:.+)\.s3[.-](?:[a-z0-9-]+\.)*amazonaws\.com(?:\.cn)?$`)
	// regionHost matches host names of AWS that contain a region. The first group is the region.
	regionHost = regexp.MustCompile(`(?:^|\.)s3[.-](?:dualstack\.)?([a-z]{2}(?:-[a-z]+)+-[0-9])\.amazonaws\.com`)
	// errorCode matches error codes of S3, such as NoSuchKey.
	errorCode = regexp.MustCompile(`^[A-Za-z0-9]{1,64}$`)
)

func (f *Fetcher) newS3Repository(l location) (*s3Repository, error) {
	server := *l.root
	server.RawQuery = ""
	key := strings.Trim(server.Path, "/")
	bucket := ""
	if !bucketHost.MatchString(server.Hostname()) {
		bucket, key, _ = strings.Cut(key, "/")
		if bucket == "" {
			return nil, failed("the URL names no bucket; it must have the form s3::https://HOST/BUCKET/PREFIX//PATH")
		}
	}
	server.Path, server.RawPath = "/"+bucket, ""
	r := &s3Repository{fetcher: f, access: l.s3, server: &server, indexAt: path.Join(key, l.index), region: l.s3.region}
	if r.region == "" {
		r.region = "us-east-1"
		if found := regionHost.FindStringSubmatch(server.Hostname()); found != nil {
			r.region = found[1]
		}
	}
	return r, nil
}

func (s *s3Repository) close() error { return nil }

func (s *s3Repository) index(ctx context.Context, known Validators) (*spool, Validators, error) {
	content, validators, err := s.getIndex(ctx, known)
	return content, validators, wrap("while getting index file", err)
}

func (s *s3Repository) getIndex(ctx context.Context, known Validators) (*spool, Validators, error) {
	header := http.Header{}
	if known.Digest != "" && known.ETag != "" {
		header.Set("If-None-Match", known.ETag)
	}
	got, err := s.get(ctx, s.indexAt, nil, header)
	if err != nil {
		return nil, Validators{}, err
	}
	defer got.close()
	if got.StatusCode == http.StatusNotModified && len(header) > 0 {
		return nil, Validators{ETag: known.ETag}, nil
	}
	if err := s3Failure(got); err != nil {
		return nil, Validators{}, err
	}
	to := s.fetcher.disk.newSpool("the index", s.fetcher.limits.Index)
	if err := got.read(to); err != nil {
		to.Close()
		return nil, Validators{}, err
	}
	return to, Validators{ETag: got.Header.Get("ETag")}, nil
}

func (s *s3Repository) addon(ctx context.Context, name, version string, known Validators) (*spool, Validators, error) {
	dir := path.Join(path.Dir(s.indexAt), name+"-"+version)
	objects, err := s.list(ctx, dir+"/")
	if err != nil {
		return nil, Validators{}, err
	}
	if len(objects) == 0 {
		return nil, Validators{}, errMissing(dir)
	}
	validators := Validators{Revision: revision(objects)}
	if known.Digest != "" && known.Revision == validators.Revision {
		return nil, validators, nil
	}
	to := s.fetcher.newPacker()
	content, err := to.finish(s.download(ctx, objects, dir+"/", to))
	return content, validators, err
}

// An s3Object is one object in a listing of a bucket.
type s3Object struct {
	Key          string `xml:"Key"`
	ETag         string `xml:"ETag"`
	Size         int64  `xml:"Size"`
	LastModified string `xml:"LastModified"`
}

// revision returns a digest of a listing. The digest changes if an object is added, removed or changed.
func revision(objects []s3Object) string {
	hash := sha256.New()
	encoder := xml.NewEncoder(hash) // a hash never fails
	_ = encoder.Encode(objects)
	return hex.EncodeToString(hash.Sum(nil))
}

// list returns the objects whose keys begin with prefix, sorted by key.
func (s *s3Repository) list(ctx context.Context, prefix string) ([]s3Object, error) {
	const maxPage = 4 << 20
	var objects []s3Object
	query := url.Values{"list-type": {"2"}, "prefix": {prefix}}
	for {
		got, err := s.get(ctx, "", query, nil)
		if err != nil {
			return nil, err
		}
		page := s.fetcher.disk.newSpool("the list of objects", maxPage)
		if err = s3Failure(got); err == nil {
			err = got.read(page)
		}
		got.close()
		var list struct {
			Contents              []s3Object `xml:"Contents"`
			IsTruncated           bool       `xml:"IsTruncated"`
			NextContinuationToken string     `xml:"NextContinuationToken"`
		}
		if err == nil && xml.NewDecoder(page.reader()).Decode(&list) != nil {
			err = failed("the server sent a damaged list of objects")
		}
		page.Close()
		if err != nil {
			return nil, err
		}
		objects = append(objects, list.Contents...)
		if len(objects) > catalog.DefaultLimits.Entries {
			return nil, invalid("the directory of the addon has more than the limit of %d files", catalog.DefaultLimits.Entries)
		}
		if !list.IsTruncated {
			break
		}
		if list.NextContinuationToken == "" || query.Get("continuation-token") == list.NextContinuationToken {
			return nil, failed("the server sent a damaged list of objects")
		}
		query.Set("continuation-token", list.NextContinuationToken)
	}
	slices.SortFunc(objects, func(a, b s3Object) int { return strings.Compare(a.Key, b.Key) })
	return objects, nil
}

func (s *s3Repository) download(ctx context.Context, objects []s3Object, prefix string, to *packer) error {
	for _, o := range objects {
		name, ok := strings.CutPrefix(o.Key, prefix)
		if !ok {
			return failed("the server sent a damaged list of objects")
		}
		if name == "" || strings.HasSuffix(name, "/") { // not a file: S3 web consoles create such an object when a user creates a directory
			continue
		}
		data, err := s.object(ctx, o.Key)
		if err == nil {
			err = to.add(name, data)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// object returns the content of the object with this key, which is a file of an addon.
func (s *s3Repository) object(ctx context.Context, key string) ([]byte, error) {
	got, err := s.get(ctx, key, nil, nil)
	if err != nil {
		return nil, err
	}
	defer got.close()
	if err := s3Failure(got); err != nil {
		return nil, err
	}
	file := s.fetcher.disk.newSpool("a file of the addon", maxObject)
	defer file.Close()
	if err := got.read(file); err != nil {
		return nil, err
	}
	return io.ReadAll(file.reader())
}

// get requests the object with this key, or a listing of the bucket if key is empty. If the server responds that the
// bucket is in another region, get repeats the request once, signed for that region.
func (s *s3Repository) get(ctx context.Context, key string, query url.Values, header http.Header) (*response, error) {
	for again := range 2 {
		s.mu.Lock()
		region := s.region
		s.mu.Unlock()
		got, err := s.getSigned(ctx, key, query, header, region)
		if err != nil {
			return nil, err
		}
		actual := got.Header.Get("X-Amz-Bucket-Region")
		wrong := got.StatusCode == http.StatusBadRequest || got.StatusCode == http.StatusForbidden || got.StatusCode == http.StatusMovedPermanently
		if again == 1 || !wrong || actual == "" || actual == region {
			return got, nil
		}
		got.close()
		s.mu.Lock()
		s.region = actual
		s.mu.Unlock()
	}
	return nil, nil //nolint:nilnil // the loop returns
}

func (s *s3Repository) getSigned(ctx context.Context, key string, query url.Values, header http.Header, region string) (*response, error) {
	u := *s.server
	u.Path = strings.TrimSuffix(u.Path, "/") + "/" + key
	if key == "" && len(s.server.Path) > 1 {
		u.Path = s.server.Path
	}
	u.RawPath = s3utils.EncodePath(u.Path)
	u.RawQuery = s3utils.QueryEncode(query)
	return s.fetcher.client.do(ctx, request{
		method: http.MethodGet, url: &u, header: header, time: s.fetcher.limits.Request,
		sign: func(r *http.Request) *http.Request {
			if s.access.key == "" {
				return r
			}
			const emptyBody = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
			r.Header.Set("X-Amz-Content-Sha256", emptyBody)
			return signer.SignV4(*r, s.access.key, s.access.secret, s.access.token, region)
		},
	})
}

// s3Failure returns an error if the status of the response is not 200. The error has the error code of S3 if the body
// contains one.
func s3Failure(got *response) error {
	if got.StatusCode == http.StatusOK {
		return nil
	}
	const enough = 16 << 10
	text, _ := io.ReadAll(io.LimitReader(got.Body, enough)) // without a readable body, the error has only the status code
	var answer struct {
		Code string `xml:"Code"`
	}
	if xml.NewDecoder(bytes.NewReader(text)).Decode(&answer) != nil || !errorCode.MatchString(answer.Code) {
		return failed("bad response code: %d", got.StatusCode)
	}
	return failed("bad response code: %d (%s)", got.StatusCode, answer.Code)
}

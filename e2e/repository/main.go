// Command repository serves a directory with addon repositories over HTTP. The command "make run" and the commands in
// the docs use it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:9651", "address to listen on; with port 0, the kernel chooses a free port")
	urlFile := flag.String("url-file", "", "file to write the server's URL to when it accepts requests")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: repository [flags] DIR")
		os.Exit(2)
	}
	if err := serve(*listen, *urlFile, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "repository:", err)
		os.Exit(1)
	}
}

func serve(listen, urlFile, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("cannot listen: %w; choose another address with --listen", err)
	}
	if urlFile != "" {
		if err := writeURL(urlFile, "http://"+listener.Addr().String()); err != nil {
			return errors.Join(err, listener.Close())
		}
	}
	server := http.Server{Handler: http.FileServerFS(root.FS()), ReadHeaderTimeout: 10 * time.Second}
	return server.Serve(listener)
}

// writeURL writes url to the file at path atomically, so that no process reads only a part of the URL.
func writeURL(path, url string) error {
	next, err := os.CreateTemp(filepath.Dir(path), ".url-*")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(next, url)
	if err := errors.Join(err, next.Close()); err != nil {
		return errors.Join(err, os.Remove(next.Name()))
	}
	return os.Rename(next.Name(), path)
}

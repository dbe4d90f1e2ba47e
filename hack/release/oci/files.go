// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"archive/tar"
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// File is a file, a folder or a symbolic link of a layer. It belongs to root, and its time is always 1970.
type File struct {
	// Path is the path in the image, with or without a leading slash.
	Path string
	// Mode holds the permissions, and fs.ModeDir for a folder. Folders that are missing on the way to a file are added
	// with 0755.
	Mode fs.FileMode
	// Content is what a file holds, unless Source names a file to read.
	Content []byte
	Source  string
	// Link makes it a symbolic link to this target. A link has no permissions of its own.
	Link string
}

// Tree returns the files and folders below a folder, with the paths relative to it. Their permissions are always 0644
// and 0755, whatever the umask was.
func Tree(folder string) ([]File, error) {
	var files []File
	err := filepath.WalkDir(folder, func(source string, entry fs.DirEntry, err error) error {
		if err != nil || source == folder {
			return err
		}
		name, err := filepath.Rel(folder, source)
		if err != nil {
			return err
		}
		switch file := (File{Path: filepath.ToSlash(name)}); {
		case entry.IsDir():
			file.Mode = fs.ModeDir | 0o755
			files = append(files, file)
		case entry.Type().IsRegular():
			file.Mode, file.Source = 0o644, source
			files = append(files, file)
		default:
			return fmt.Errorf("%s is neither a file nor a folder", source)
		}
		return nil
	})
	return files, err
}

// WriteTar writes files as a tar that depends on nothing else: sorted, and with a fixed time.
func WriteTar(out io.Writer, files []File) error {
	all, err := complete(files)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(out)
	for _, file := range all {
		if err := file.write(archive); err != nil {
			return fmt.Errorf("%s: %w", file.Path, err)
		}
	}
	return archive.Close()
}

// complete returns the files sorted by their path, with the folders that lead to them.
func complete(files []File) ([]File, error) {
	byPath := make(map[string]File, len(files))
	for _, file := range files {
		given := file.Path
		file.Path = path.Clean(strings.TrimPrefix(given, "/"))
		if !fs.ValidPath(file.Path) || file.Path == "." {
			return nil, fmt.Errorf("%q is not a path in an image", given)
		}
		byPath[file.Path] = file
	}
	for _, file := range files {
		name := path.Clean(strings.TrimPrefix(file.Path, "/"))
		for folder := path.Dir(name); folder != "."; folder = path.Dir(folder) {
			if _, found := byPath[folder]; !found {
				byPath[folder] = File{Path: folder, Mode: fs.ModeDir | 0o755}
			}
		}
	}
	return slices.SortedFunc(maps.Values(byPath), func(a, b File) int { return cmp.Compare(a.Path, b.Path) }), nil
}

func (f File) write(archive *tar.Writer) error {
	content := f.Content
	if f.Source != "" {
		var err error
		if content, err = os.ReadFile(f.Source); err != nil {
			return err
		}
	}
	header := &tar.Header{
		Name: f.Path, Typeflag: tar.TypeReg, Mode: int64(f.Mode.Perm()), Size: int64(len(content)), ModTime: time.Unix(0, 0),
	}
	switch {
	case f.Link != "":
		header.Typeflag, header.Linkname, header.Mode = tar.TypeSymlink, f.Link, 0o777
	case f.Mode.IsDir():
		header.Typeflag, header.Name = tar.TypeDir, f.Path+"/"
	}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err := archive.Write(content)
	return err
}

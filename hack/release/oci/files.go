// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"archive/tar"
	"cmp"
	"errors"
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

// File is a file, a folder or a symbolic link of a layer. Its owner is UID and GID, and its time is always 1970.
type File struct {
	// Path is the path in the image, with or without a leading slash.
	Path string
	// Mode holds the permissions, and fs.ModeDir for a folder. Folders that are missing on the way to a file are added
	// with 0755 and belong to root.
	Mode     fs.FileMode
	UID, GID int
	// Content is what a file holds, unless Source names a file to read.
	Content []byte
	Source  string
	// Link makes it a symbolic link to this target. A link has no permissions of its own.
	Link string
}

// Tree returns everything below a folder, with the paths relative to it. Symbolic links stay links, and all belongs to
// root. A hard link becomes a file of its own.
func Tree(folder string) ([]File, error) {
	var files []File
	err := filepath.WalkDir(folder, func(source string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, source)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if name == "." {
			if !info.IsDir() {
				return fmt.Errorf("%s is not a folder", folder)
			}
			return nil
		}
		file := File{Path: filepath.ToSlash(name), Mode: info.Mode()}
		switch {
		case info.Mode().IsRegular():
			file.Source = source
		case info.Mode().Type() == fs.ModeSymlink:
			file.Link, err = os.Readlink(source)
		case !info.IsDir():
			return fmt.Errorf("%s is neither a file, a folder nor a symbolic link", source)
		}
		files = append(files, file)
		return err
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
		if _, twice := byPath[file.Path]; twice {
			return nil, fmt.Errorf("%s is there twice", file.Path)
		}
		if err := file.check(); err != nil {
			return nil, fmt.Errorf("%s: %w", file.Path, err)
		}
		byPath[file.Path] = file
	}
	for _, file := range files {
		name := path.Clean(strings.TrimPrefix(file.Path, "/"))
		for folder := path.Dir(name); folder != "."; folder = path.Dir(folder) {
			above, found := byPath[folder]
			if !found {
				byPath[folder] = File{Path: folder, Mode: fs.ModeDir | 0o755}
			} else if !above.Mode.IsDir() || above.Link != "" {
				return nil, fmt.Errorf("%s can't be in %s, which is not a folder", name, folder)
			}
		}
	}
	return slices.SortedFunc(maps.Values(byPath), func(a, b File) int { return cmp.Compare(a.Path, b.Path) }), nil
}

func (f File) check() error {
	holds := f.Content != nil || f.Source != ""
	switch {
	case f.Link != "" && holds:
		return errors.New("a symbolic link holds nothing")
	case f.Link != "":
		return nil
	case f.Mode.IsDir() && holds:
		return errors.New("a folder holds no content of its own")
	case f.Content != nil && f.Source != "":
		return errors.New("either its content or its source is given, not both")
	case f.Mode.Type()&^fs.ModeDir != 0:
		return fmt.Errorf("mode %v is neither that of a file nor of a folder", f.Mode)
	case f.Mode.Perm() == 0:
		return errors.New("it has no permissions")
	}
	return nil
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
		Name: f.Path, Typeflag: tar.TypeReg, Mode: f.bits(), Uid: f.UID, Gid: f.GID, Size: int64(len(content)),
		ModTime: time.Unix(0, 0),
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

// bits returns the permissions in the notation of tar and chmod.
func (f File) bits() int64 {
	bits := int64(f.Mode.Perm())
	for mode, bit := range map[fs.FileMode]int64{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if f.Mode&mode != 0 {
			bits |= bit
		}
	}
	return bits
}

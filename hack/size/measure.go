// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"slices"
	"strings"
)

// size is that of a file, a package, or all. Code and tests are lines that hold more than a comment.
type size struct {
	code, comments, tests int
	functions             []function
}

// function is one of the product. Its length is that of the body and the lines of its head, and branches are the ways to go on
// beyond the first: if, for, case, && and ||.
type function struct {
	name             string
	length, branches int
}

func (s *size) add(other size) {
	s.code += other.code
	s.comments += other.comments
	s.tests += other.tests
	s.functions = append(s.functions, other.functions...)
}

// line is the size of a package in the columns of the table.
func (s *size) line(name string) string {
	if len(s.functions) == 0 {
		return fmt.Sprintf("%s\t%d\t\t%s\t0\t\t\t\t\t\t", name, s.code, ratio(s.tests, s.code))
	}
	byLength := slices.SortedFunc(slices.Values(s.functions), func(a, b function) int { return a.length - b.length })
	at := func(percent int) int { return byLength[(len(byLength)-1)*percent/100].length }
	longest := byLength[len(byLength)-1]
	branched := slices.MaxFunc(s.functions, func(a, b function) int { return a.branches - b.branches })
	return fmt.Sprintf("%s\t%d\t%d %%\t%s\t%d\t%d\t%d\t%d\t%d\t%s, %s\t",
		name, s.code, 100*s.comments/(s.code+s.comments), ratio(s.tests, s.code), len(byLength),
		at(50), at(90), longest.length, branched.branches, longest.name, branched.name)
}

func ratio(a, b int) string { return fmt.Sprintf("%.1f", float64(a)/float64(max(b, 1))) }

// measure measures one file.
func measure(path string, source []byte) (size, error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, path, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || ast.IsGenerated(parsed) {
		return size{}, err
	}
	code, comments := lines(source)
	if strings.HasSuffix(path, "_test.go") {
		return size{tests: code}, nil
	}
	const header = 2
	measured := size{code: code, comments: comments - header}
	for _, declaration := range parsed.Decls {
		if f, is := declaration.(*ast.FuncDecl); is && f.Body != nil {
			length := files.Position(f.End()).Line - files.Position(f.Pos()).Line + 1
			measured.functions = append(measured.functions, function{f.Name.Name, length, branches(f.Body)})
		}
	}
	return measured, nil
}

// lines counts those with code, and those with nothing but a comment.
func lines(source []byte) (code, comments int) {
	files := token.NewFileSet()
	file := files.AddFile("", files.Base(), len(source))
	var tokens scanner.Scanner
	tokens.Init(file, source, nil, scanner.ScanComments)
	hasCode, hasComment := map[int]bool{}, map[int]bool{}
	for {
		position, kind, text := tokens.Scan()
		if kind == token.EOF {
			break
		}
		first := file.Line(position)
		for line := range strings.Count(text, "\n") + 1 {
			if kind == token.COMMENT {
				hasComment[first+line] = true
			} else if text != "\n" {
				hasCode[first+line] = true
			}
		}
	}
	for line := range hasComment {
		if !hasCode[line] {
			comments++
		}
	}
	return len(hasCode), comments
}

func branches(body *ast.BlockStmt) (count int) {
	ast.Inspect(body, func(node ast.Node) bool {
		switch is := node.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt, *ast.CaseClause, *ast.CommClause:
			count++
		case *ast.BinaryExpr:
			if is.Op == token.LAND || is.Op == token.LOR {
				count++
			}
		}
		return true
	})
	return count
}

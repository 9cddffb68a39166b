/* page_style.h: the style sheet of pages. */
#ifndef REPORT_PAGE_STYLE_H
#define REPORT_PAGE_STYLE_H

extern const char *const page_style[]; /* ends with NULL */

#endif

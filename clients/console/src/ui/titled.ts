// What a call is about, in a line.

import { asking, subject } from "../prompts";
import { short } from "../text";

/** What a call is about: its title and what it touches, else what it asks. */
export function titled(row: { id: string; title: string; summary: string }, most = 160): string {
  const { title, summary } = row;
  const isSame = title.includes(summary) || (title !== "" && summary.endsWith(`/${title}`));
  const says = isSame ? title : title === "" || summary.startsWith(title) ? summary : `${title} · ${summary}`;
  if (says !== "") return short(says, most);
  const prompt = asking.value.get(row.id);
  return prompt === undefined ? "" : short(subject(prompt), most);
}

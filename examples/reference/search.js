// Lists declarations whose name contains the text in the search field. `names`, of build.py, has pairs [name, link].
const field = document.querySelector('[type=search]'), list = document.querySelector('.search ul');
const rank = (name, text) => (name.split('::').pop().startsWith(text) ? 0 : 1000) + name.length;
field.addEventListener('input', () => {
  const text = field.value.trim().toLowerCase();
  const found = text ? names.filter(([name]) => name.toLowerCase().includes(text)) : [];
  found.sort(([a], [b]) => rank(a.toLowerCase(), text) - rank(b.toLowerCase(), text));
  list.replaceChildren(...found.slice(0, 12).map(([name, link]) => {
    const a = document.createElement('a'), item = document.createElement('li');
    a.href = link, a.textContent = name, item.append(a);
    return item;
  }));
});
field.addEventListener('keydown', (key) => key.key === 'Enter' && list.querySelector('a')?.click());
